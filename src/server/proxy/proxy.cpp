#include "server/proxy/proxy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "base/text/percent_encoding.h"
#include "server/dialects/json_fields.h"
#include "server/dialects/keep_alive.h"
#include "server/http/auth.h"
#include "server/http/status.h"
#include "server/proxy/proxy_reply.h"
#include "server/router.h"

namespace kvik {
namespace {

namespace json = boost::json;

// Headers that the server of a model needs. Others concern the client's connection.
constexpr std::array kForwarded = {
    std::string_view("authorization"),  std::string_view("x-api-key"),
    std::string_view("content-type"),   std::string_view("accept"),
    std::string_view("user-agent"),     std::string_view("traceparent"),
    std::string_view("tracestate"),     std::string_view("anthropic-version"),
    std::string_view("anthropic-beta"), std::string_view("openai-beta"),
};

// Bytes of a path that are not escaped, besides letters and digits (RFC 3986).
constexpr std::string_view kPathBytes = "/-._~:@!$&'()*+,;=";

// Returns the models that are loaded.
std::vector<std::string> loaded_models(const ModelServers& models) {
  std::vector<std::string> names;
  for (const ModelStatus& status : models.list())
    if (status.state == ModelState::kLoaded) names.push_back(status.name);
  return names;
}

// Returns whether the request cancels a response that is computed in the background: a model that
// is not loaded computes none, and is not loaded for it.
bool is_cancel(const HttpRequest& request) {
  return request.method == "POST" && request.path.starts_with("/v1/responses/") &&
         request.path.ends_with("/cancel");
}

// Returns the names of the models that may answer. Errors: kNotFound, kUnavailable.
Result<std::vector<std::string>> models_for(const ModelServers& models, std::string_view requested,
                                            bool has_body) {
  if (!requested.empty() || has_body) {
    TRY_ASSIGN(std::string name, models.resolve(requested));
    return std::vector{std::move(name)};
  }
  std::vector<std::string> names = loaded_models(models);
  if (!names.empty()) return names;
  return fail(ErrorCode::kUnavailable,
              "no model is loaded: name one as ?model=NAME, or send a request to one first",
              "model");
}

// Applies Ollama's "keep_alive" of a body: a number of seconds or a duration; negative: until
// memory is needed; 0: unload after this request. Other values are ignored, as the model's server
// reports them.
void apply_keep_alive(ModelServers& models, const std::string& model, const json::object& body) {
  const std::optional<double> seconds = keep_alive_seconds(at(body, "keep_alive"));
  if (!seconds) return;
  constexpr double kMost = 1e9;
  if (*seconds < 0) return models.set_keep_alive(model, std::nullopt);
  models.set_keep_alive(model, std::chrono::duration_cast<Duration>(
                                   std::chrono::duration<double>(std::min(*seconds, kMost))));
}

}  // namespace

Reply proxy_state_request(const HandlerContext& context, const HttpRequest& request) {
  if (request.method == "HEAD") return HttpResponse{.status = 200, .body = ""};
  const ModelServers& models = context.options.router->models;
  const std::string requested = query_value(request.query, "model");
  std::string name;
  if (!requested.empty()) {
    auto resolved = models.resolve(requested);
    if (!resolved) return error_response(resolved.error());
    name = std::move(*resolved);
  }
  ByteShare answer_share(context.memory.answers);
  if (!answer_share.grow(Upstreams::kBufferBytes)) return error_response(no_memory());
  for (const ModelStatus& status : models.list()) {
    if (!status.port || (!name.empty() && status.name != name)) continue;
    return std::make_unique<ProxyReply>(
        *context.options.router,
        ProxiedRequest{.models = {status.name},
                       .bytes = std::make_shared<const std::string>(upstream_request(request, "")),
                       .share = ByteShare(context.memory.bodies),
                       .answer_share = std::move(answer_share),
                       .id = request.id,
                       .errors = Router::error_shape(request.path),
                       .takes_events = request.path == "/kvik/live",
                       .port = status.port});
  }
  return error_response(
      Error{ErrorCode::kUnavailable,
            fmt::format("{}; {} does not load a model, POST /v1/models/load does",
                        name.empty() ? "no model is loaded" : name + " is not loaded",
                        printable(request.path)),
            "model"});
}

std::string upstream_request(const HttpRequest& request, std::string_view body) {
  std::string out;
  const auto into = std::back_inserter(out);
  const std::string_view method =
      request.method == "HEAD" ? "GET" : std::string_view(request.method);
  fmt::format_to(into, "{} {}{}{} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n", method,
                 percent_encoded(request.path, kPathBytes), request.query.empty() ? "" : "?",
                 request.query);
  fmt::format_to(into, "x-request-id: {}\r\n", request.id);
  for (const auto& [name, value] : request.headers) {
    const bool is_kvik = name.starts_with("x-kvik-");
    if (is_kvik || std::ranges::count(kForwarded, name) > 0)
      fmt::format_to(into, "{}: {}\r\n", name, value);
  }
  if (!body.empty() || method == "POST")
    fmt::format_to(into, "Content-Length: {}\r\n", body.size());
  out += "\r\n";
  out += body;
  return out;
}

Reply proxy_request(const HandlerContext& context, const HttpRequest& request,
                    const RequestBody& body) {
  if (request.method == "HEAD") return HttpResponse{.status = 200, .body = ""};
  ModelServers& models = context.options.router->models;
  const bool has_body = !request.body.empty();
  std::string model = query_value(request.query, "model");
  bool is_stream = false;
  if (has_body) {
    if (!body.object) return error_response(body.object.error());
    if (model.empty()) model = text_at(*body.object, "model");
    is_stream = at(*body.object, "stream") == true;
  }
  const bool cancels = is_cancel(request);
  const auto names = models_for(models, model, has_body && !cancels);
  if (!names) return error_response(names.error());
  if (cancels && std::ranges::count(loaded_models(models), names->front()) == 0) {
    return error_response(
        Error{ErrorCode::kUnavailable,
              fmt::format("{} is not loaded, so it computes no response that could be cancelled",
                          names->front()),
              "model"});
  }
  // With API keys, only operators load and unload models.
  const bool may_keep = is_operator(request, context.options);
  if (has_body && may_keep && request.path.starts_with("/api/"))
    apply_keep_alive(models, names->front(), *body.object);
  ByteShare share(context.memory.bodies), answer_share(context.memory.answers);
  if (!share.grow(request.body.size()) || !answer_share.grow(Upstreams::kBufferBytes))
    return error_response(no_memory());
  return std::make_unique<ProxyReply>(
      *context.options.router,
      ProxiedRequest{
          .models = *names,
          .bytes = std::make_shared<const std::string>(upstream_request(request, request.body)),
          .share = std::move(share),
          .answer_share = std::move(answer_share),
          .id = request.id,
          .errors = Router::error_shape(request.path),
          .takes_events = is_stream && !request.path.starts_with("/api/")});
}

}  // namespace kvik
