#include "server/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>

#include "base/log.h"
#include "server/http/status.h"
#include "server/operate/auth.h"

namespace kvik {
namespace {

using Handler = Reply (*)(const HandlerContext&, const HttpRequest&);

enum class Access { kKeyed, kOpen };
enum class Drain { kServes, kRefuses };  // what a draining server does

struct Route {
  std::string_view path;  // one that ends in '/' takes all below it, but for "/"
  std::string_view method;
  Handler handler;
  Access access = Access::kKeyed;
  Drain drain = Drain::kServes;
  ErrorShape errors = ErrorShape::kOpenAi;
};

constexpr auto kRoutes = std::to_array<Route>({
    {"/v1/completions", "POST", handle_completions, Access::kKeyed, Drain::kRefuses},
    {"/v1/chat/completions", "POST", handle_chat, Access::kKeyed, Drain::kRefuses},
    {"/v1/embeddings", "POST", handle_embeddings, Access::kKeyed, Drain::kRefuses},
    {"/v1/responses", "POST", handle_responses, Access::kKeyed, Drain::kRefuses},
    {"/v1/messages", "POST", handle_messages, Access::kKeyed, Drain::kRefuses,
     ErrorShape::kAnthropic},
    {"/v1/messages/count_tokens", "POST", handle_count_tokens, Access::kKeyed, Drain::kServes,
     ErrorShape::kAnthropic},
    {"/apply-template", "POST", handle_apply_template},
    {"/v1/models", "GET", handle_models},
    {"/v1/models/", "GET", handle_model},
    {"/tokenize", "POST", handle_tokenize},
    {"/detokenize", "POST", handle_detokenize},
    {"/metrics", "GET", handle_metrics},
    {"/props", "GET", handle_props},
    {"/version", "GET", handle_version},
    {"/kvik/explain", "POST", handle_explain, Access::kKeyed, Drain::kRefuses},
    {"/kvik/live", "GET", handle_live, Access::kKeyed, Drain::kRefuses},
    {"/", "GET", handle_page, Access::kOpen},
    {"/health", "GET", handle_health, Access::kOpen},
    {"/livez", "GET", handle_health, Access::kOpen},
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
  return method == route.method || (method == "HEAD" && route.method == "GET");
}

HttpResponse method_not_allowed(const Route& route, const HttpRequest& head) {
  HttpResponse response = error_response(HttpFault{
      405, fmt::format("{} takes {}, not {}", route.path, route.method, printable(head.method))});
  response.headers.emplace_back("Allow", route.method == "GET" ? "GET, HEAD" : "POST");
  return response;
}

HttpResponse unauthorized() {
  HttpResponse response = error_response(
      HttpFault{401, "a valid API key is needed: Authorization: Bearer KEY, or x-api-key: KEY"});
  response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace

std::optional<HttpResponse> Router::refuse(const HttpRequest& head) const {
  const Route* route = find_route(head.path);
  const auto& keys = context_.options.api_keys;
  // Before 404, so that only those with a key learn what exists.
  if (keys && !(route && route->access == Access::kOpen) && !find_key(head, *keys))
    return unauthorized();
  if (!route)
    return error_response(HttpFault{404, fmt::format("there is no {}", printable(head.path))});
  if (!is_allowed(*route, head.method)) return method_not_allowed(*route, head);
  if (route->drain == Drain::kRefuses && is_draining_.load())
    return error_response(Error{ErrorCode::kUnavailable, "the server is stopping"});
  return std::nullopt;
}

Reply Router::handle(const HttpRequest& request) const {
  const Route* route = find_route(request.path);
  if (!route)
    return error_response(HttpFault{404, fmt::format("there is no {}", printable(request.path))});
  try {
    return route->handler(context_, request);
  } catch (const std::exception& exception) {  // Boost.JSON's, and memory running out
    log::error("{} {}: {}", printable(request.method), printable(request.path), exception.what());
    return error_response(HttpFault{500, "the request could not be handled"});
  }
}

ErrorShape Router::error_shape(std::string_view path) {
  const Route* route = find_route(path);
  return route ? route->errors : ErrorShape::kOpenAi;
}

bool Router::is_probe(std::string_view path) {
  const Route* route = find_route(path);
  return route && route->access == Access::kOpen;
}

}  // namespace kvik
