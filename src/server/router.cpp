#include "server/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <variant>

#include "base/rare_warning.h"
#include "server/dialects/request_body.h"
#include "server/http/auth.h"
#include "server/http/status.h"
#include "server/operate/load_progress.h"
#include "server/proxy/proxy.h"
#include "server/routes.h"

namespace kvik {
namespace {

using Access = Route::Access;
using Drain = Route::Drain;

const Route* find_route(std::string_view path) {
  for (const Route& route : routes()) {
    const std::string_view prefix = route.prefix();
    const bool takes = prefix == route.path ? path == prefix : path.starts_with(prefix);
    if (takes) return &route;
  }
  return nullptr;
}

bool is_allowed(const Route& route, std::string_view method) {
  const auto takes = [&](std::string_view one) {
    return std::ranges::any_of(routes(), [&](const Route& other) {
      return other.prefix() == route.prefix() && other.method == one;
    });
  };
  return takes(method) || (method == "HEAD" && takes("GET"));
}

// Returns the methods of a path for the Allow header: "GET, DELETE".
std::string methods_of(const Route& route) {
  std::string methods;
  for (const Route& other : routes()) {
    if (other.prefix() != route.prefix() || methods.contains(other.method)) continue;
    methods += fmt::format("{}{}", methods.empty() ? "" : ", ", other.method);
  }
  return methods;
}

HttpResponse method_not_allowed(const Route& route, const HttpRequest& head) {
  const std::string methods = methods_of(route);
  HttpResponse response = error_response(HttpFault{
      405, fmt::format("{} takes {}, not {}", route.prefix(), methods, printable(head.method))});
  response.headers.emplace_back("Allow", methods + (methods.starts_with("GET") ? ", HEAD" : ""));
  return response;
}

// Returns the answer of a server that still loads its model, to a probe or to any other request.
HttpResponse loading_response(const LoadProgress& progress, bool is_probe) {
  const std::string message =
      fmt::format("the model is being loaded: {:.0f}%", 100 * progress.share());
  if (!is_probe) return error_response(HttpFault{503, message});
  return {.status = 503,
          .body = fmt::format(R"({{"status":"loading","message":"{}","progress":{:.3f}}})", message,
                              progress.share()),
          .headers = {{"Retry-After", "1"}}};
}

HttpResponse unauthorized() {
  HttpResponse response = error_response(
      HttpFault{401, "a valid API key is needed: Authorization: Bearer KEY, or x-api-key: KEY"});
  response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

template <class Make>
Reply guarded(const HttpRequest& request, const Make& make) {
  static log::RareWarning warn;
  try {
    return make();
  } catch (const std::bad_alloc&) {
    warn("{} {}: out of memory", printable(request.method), printable(request.path));
    return error_response(no_memory());
  } catch (const std::exception& exception) {  // thrown by Boost.JSON
    warn("{} {}: {}", printable(request.method), printable(request.path), exception.what());
    return error_response(HttpFault{500, "the request could not be handled"});
  }
}

}  // namespace

std::optional<HttpResponse> Router::answer_head(const HttpRequest& head) const {
  const Route* route = find_route(head.path);
  // Health probes may use any host name; the page, which needs no key either, may not.
  const bool has_any_name = is_probe(head.path) && head.path != "/";
  const auto fault = has_any_name ? callers_.refuse_origin(head) : callers_.refuse(head);
  if (fault) return error_response(*fault);
  // Before the key is checked, since browsers send preflight requests without one.
  if (auto response = callers_.preflight(head)) return response;
  const auto& keys = context_.options.api_keys;
  // Before 404, so that only clients with a valid key learn which routes exist.
  if (keys && !(route && route->traits.access == Access::kOpen) && !find_key(head, *keys))
    return unauthorized();
  if (!route)
    return error_response(HttpFault{404, fmt::format("there is no {}", printable(head.path))});
  if (!is_allowed(*route, head.method)) return method_not_allowed(*route, head);
  if (context_.options.loading && route->path != kAlivePath)
    return loading_response(*context_.options.loading, has_any_name);
  if (route->traits.drain == Drain::kRefuses && is_draining_.load())
    return error_response(Error{ErrorCode::kUnavailable, "the server is stopping"});
  return std::nullopt;
}

Reply Router::handle(const HttpRequest& request) const {
  const Route* route = find_route(request.path);
  if (!route)
    return error_response(HttpFault{404, fmt::format("there is no {}", printable(request.path))});
  return guarded(request, [&]() -> Reply {
    ByteShare share(context_.memory.all);
    JsonBudget budget{.n_ctx = context_.service.card().n_ctx_max, .share = share};
    RequestBody body = parse_body(budget, request.body);
    body.client = owner_id(context_.options, find_key(request, context_.options), "");
    if (budget.fault) return error_response(*budget.fault);
    if (!budget.has_room) return error_response(no_memory());
    const Route::Scope scope = route->traits.scope;
    if (context_.options.router && scope == Route::Scope::kState)
      return proxy_state_request(context_, request);
    if (context_.options.router && scope == Route::Scope::kModel)
      return proxy_request(context_, request, body);
    if (const auto* handler = std::get_if<Route::PlainHandler>(&route->handler))
      return (*handler)(context_, request);
    return std::get<Route::BodyHandler>(route->handler)(context_, request, body);
  });
}

Reply Router::make(const HttpRequest& request, DeferredReply* deferred) const {
  if (deferred) return guarded(request, [&] { return deferred->make(); });
  Reply reply = handle(request);
  const auto* later = std::get_if<std::unique_ptr<DeferredReply>>(&reply);
  if (later && (*later)->kind() == DeferredReply::Kind::kQuick) return make(request, later->get());
  return reply;
}

ErrorShape Router::error_shape(std::string_view path) {
  const Route* route = find_route(path);
  if (route) return route->traits.errors;
  if (path.starts_with("/api/")) return ErrorShape::kOllama;
  return path.starts_with("/v1/messages") ? ErrorShape::kAnthropic : ErrorShape::kOpenAi;
}

bool Router::is_heavy(std::string_view path) {
  const Route* route = find_route(path);
  return route && route->traits.work == Route::Work::kHeavy;
}

bool Router::is_probe(std::string_view path) {
  const Route* route = find_route(path);
  return route && route->traits.access == Access::kOpen;
}

}  // namespace kvik
