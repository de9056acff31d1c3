#include "server/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <new>
#include <variant>

#include "base/rare_warning.h"
#include "server/dialects/request_body.h"
#include "server/http/status.h"
#include "server/operate/auth.h"
#include "server/operate/load_progress.h"

namespace kvik {
namespace {

using PlainHandler = Reply (*)(const HandlerContext&, const HttpRequest&);
using BodyHandler = Reply (*)(const HandlerContext&, const HttpRequest&, const RequestBody&);

enum class Access { kKeyed, kOpen };
enum class Drain { kServes, kRefuses };  // what a draining server does
// kLight: what a request takes grows with its body. kHeavy: a short one can refer to much.
enum class Work { kLight, kHeavy };

constexpr std::string_view kAlivePath = "/livez";

struct Route {
  std::string_view path;     // one that ends in '/' takes all below it, but for "/"
  std::string_view methods;  // with commas between
  std::variant<PlainHandler, BodyHandler> handler;
  Access access = Access::kKeyed;
  Drain drain = Drain::kServes;
  ErrorShape errors = ErrorShape::kOpenAi;
  Work work = Work::kLight;
};

constexpr auto kRoutes = std::to_array<Route>({
    {"/v1/completions", "POST", handle_completions, Access::kKeyed, Drain::kRefuses},
    {"/v1/chat/completions", "POST", handle_chat, Access::kKeyed, Drain::kRefuses},
    {"/v1/embeddings", "POST", handle_embeddings, Access::kKeyed, Drain::kRefuses},
    {"/v1/responses", "POST", handle_responses, Access::kKeyed, Drain::kRefuses,
     ErrorShape::kOpenAi, Work::kHeavy},
    {"/v1/responses/input_tokens", "POST", handle_count_input, Access::kKeyed, Drain::kServes,
     ErrorShape::kOpenAi, Work::kHeavy},
    {"/v1/responses/", "GET, DELETE", handle_response, Access::kKeyed, Drain::kServes,
     ErrorShape::kOpenAi, Work::kHeavy},
    {"/v1/messages", "POST", handle_messages, Access::kKeyed, Drain::kRefuses,
     ErrorShape::kAnthropic},
    {"/v1/messages/count_tokens", "POST", handle_count_tokens, Access::kKeyed, Drain::kServes,
     ErrorShape::kAnthropic},
    {"/apply-template", "POST", handle_apply_template},
    // Without /v1, for clients whose base URL leaves it out.
    {"/chat/completions", "POST", handle_chat, Access::kKeyed, Drain::kRefuses},
    {"/models", "GET", handle_models},
    {"/v1/models", "GET", handle_models},
    {"/v1/models/", "GET", handle_model},
    {"/v1/adapters", "GET, POST", handle_adapters},
    {"/v1/adapters/", "GET, DELETE", handle_adapter},
    {"/v1/load_lora_adapter", "POST", handle_load_lora_adapter},
    {"/v1/unload_lora_adapter", "POST", handle_unload_lora_adapter},
    {"/tokenize", "POST", handle_tokenize},
    {"/detokenize", "POST", handle_detokenize},
    {"/metrics", "GET", handle_metrics},
    {"/props", "GET", handle_props},
    {"/version", "GET", handle_version},
    {"/openapi.json", "GET", handle_openapi},
    {"/kvik/explain", "POST", handle_explain, Access::kKeyed, Drain::kRefuses},
    {"/kvik/route/", "POST", handle_route},
    {"/kvik/live", "GET", handle_live, Access::kKeyed, Drain::kRefuses},
    {"/", "GET", handle_page, Access::kOpen},
    {"/health", "GET", handle_health, Access::kOpen},
    {kAlivePath, "GET", handle_health, Access::kOpen},
    {"/readyz", "GET", handle_health, Access::kOpen, Drain::kRefuses},
});

const Route* find_route(std::string_view path) {
  for (const Route& route : kRoutes) {
    const bool is_folder = route.path.ends_with('/') && route.path.size() > 1;
    const bool is_prefix = is_folder && path.size() > route.path.size();
    if (is_prefix ? path.starts_with(route.path) : path == route.path) return &route;
  }
  return nullptr;
}

bool is_allowed(const Route& route, std::string_view method) {
  if (method.empty() || method.contains(',') || method.contains(' ')) return false;
  const auto takes = [&](std::string_view one) {
    for (std::string_view rest = route.methods; !rest.empty();) {
      const size_t end = std::min(rest.find(", "), rest.size());
      if (rest.substr(0, end) == one) return true;
      rest.remove_prefix(std::min(end + 2, rest.size()));
    }
    return false;
  };
  return takes(method) || (method == "HEAD" && takes("GET"));
}

HttpResponse method_not_allowed(const Route& route, const HttpRequest& head) {
  HttpResponse response = error_response(HttpFault{
      405, fmt::format("{} takes {}, not {}", route.path, route.methods, printable(head.method))});
  const bool is_read = route.methods.starts_with("GET");
  response.headers.emplace_back("Allow", std::string(route.methods) + (is_read ? ", HEAD" : ""));
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
    warn("{} {}: the system has no memory left", printable(request.method),
         printable(request.path));
    return error_response(no_memory());
  } catch (const std::exception& exception) {  // Boost.JSON's
    warn("{} {}: {}", printable(request.method), printable(request.path), exception.what());
    return error_response(HttpFault{500, "the request could not be handled"});
  }
}

}  // namespace

std::vector<std::pair<std::string_view, std::string_view>> Router::routes() {
  std::vector<std::pair<std::string_view, std::string_view>> all;
  for (const Route& route : kRoutes) all.emplace_back(route.path, route.methods);
  return all;
}

std::optional<HttpResponse> Router::answer_head(const HttpRequest& head) const {
  const Route* route = find_route(head.path);
  // Whoever probes may know the machine by any name; the page is not for all.
  const bool has_any_name = is_probe(head.path) && head.path != "/";
  const auto fault = has_any_name ? callers_.refuse_origin(head) : callers_.refuse(head);
  if (fault) return error_response(*fault);
  // Before the key: browsers ask without one.
  if (auto response = callers_.preflight(head)) return response;
  const auto& keys = context_.options.api_keys;
  // Before 404, so that only those with a key learn what exists.
  if (keys && !(route && route->access == Access::kOpen) && !find_key(head, *keys))
    return unauthorized();
  if (!route)
    return error_response(HttpFault{404, fmt::format("there is no {}", printable(head.path))});
  if (!is_allowed(*route, head.method)) return method_not_allowed(*route, head);
  if (context_.options.loading && route->path != kAlivePath)
    return loading_response(*context_.options.loading, has_any_name);
  if (route->drain == Drain::kRefuses && is_draining_.load())
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
    const RequestBody body = parse_body(budget, request.body);
    if (budget.fault) return error_response(*budget.fault);
    if (!budget.has_room) return error_response(no_memory());
    if (const auto* handler = std::get_if<PlainHandler>(&route->handler))
      return (*handler)(context_, request);
    return std::get<BodyHandler>(route->handler)(context_, request, body);
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
  if (route) return route->errors;
  return path.starts_with("/v1/messages") ? ErrorShape::kAnthropic : ErrorShape::kOpenAi;
}

bool Router::is_heavy(std::string_view path) {
  const Route* route = find_route(path);
  return route && route->work == Work::kHeavy;
}

bool Router::is_probe(std::string_view path) {
  const Route* route = find_route(path);
  return route && route->access == Access::kOpen;
}

}  // namespace kvik
