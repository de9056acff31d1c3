#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "server/dialects/ollama/ollama_model_json.h"
#include "server/dialects/ollama/ollama_names.h"
#include "server/dialects/ollama/pull_reply.h"
#include "server/dialects/request_body.h"
#include "server/handlers.h"
#include "server/http/auth.h"
#include "server/http/status.h"
#include "server/proxy/proxy.h"
#include "server/proxy/proxy_reply.h"
#include "service/adapters/adapter_registry.h"
#include "service/check_request.h"
#include "service/model_name.h"

namespace kvik {
namespace {

namespace json = boost::json;

// Makes an answer on another thread, because the library reads and writes files.
class LibraryAnswer final : public DeferredReply {
 public:
  explicit LibraryAnswer(std::function<Result<std::string>()> make) : make_(std::move(make)) {}

  Reply make() override {
    auto body = make_();
    if (!body) return error_response(body.error());
    return HttpResponse{.status = 200, .body = *std::move(body)};
  }

 private:
  const std::function<Result<std::string>()> make_;
};

Reply from_library(std::function<Result<std::string>()> make) {
  return std::make_unique<LibraryAnswer>(std::move(make));
}

Result<std::vector<StoredModel>> stored_models(const ServerOptions& options) {
  if (!options.model_library) return std::vector<StoredModel>();
  return options.model_library->list();
}

// Returns the names of the served model and its adapters, in the order of /v1/models.
std::vector<std::string> served_names(const ServiceApi& service) {
  std::vector<std::string> names = {service.card().id.text()};
  for (const std::string& alias : service.card().aliases) {
    if (alias != "*") names.push_back(alias);
  }
  if (const AdapterRegistry* adapters = service.adapters()) {
    for (const AdapterCard& adapter : adapters->list()) names.push_back(adapter.name);
  }
  return names;
}

// Returns the served models, followed by the models in the library that are not served.
Result<std::string> tags_json(const ServerOptions& options, json::array models,
                              const std::vector<std::string>& served) {
  TRY_ASSIGN(const auto stored, stored_models(options));
  for (const StoredModel& model : stored) {
    const auto is_it = [&](const std::string& name) { return is_same_model(name, model.name); };
    if (std::ranges::none_of(served, is_it)) models.push_back(stored_model_json(model));
  }
  return json::serialize(json::object{{"models", std::move(models)}});
}

Result<std::string> server_tags_json(const ServiceApi& service, const ServerOptions& options) {
  const std::vector<std::string> served = served_names(service);
  json::array models;
  for (const std::string& name : served) models.push_back(served_model_json(service.card(), name));
  return tags_json(options, std::move(models), served);
}

Result<std::string> router_tags_json(const ServerOptions& options) {
  std::vector<std::string> served;
  json::array models;
  for (const ModelStatus& status : options.router->models.list()) {
    served.push_back(status.name);
    models.push_back(router_model_json(status));
  }
  return tags_json(options, std::move(models), served);
}

// Returns the loaded models of a router.
std::string router_ps_json(const ModelServers& servers) {
  json::array models;
  for (const ModelStatus& status : servers.list())
    if (status.state == ModelState::kLoaded) models.push_back(loaded_model_json(status));
  return json::serialize(json::object{{"models", std::move(models)}});
}

// Shows a model of a router without loading it.
Reply show_router_model(const HandlerContext& context, const HttpRequest& request,
                        const RequestBody& body, const std::string& name) {
  const ModelServers& servers = context.options.router->models;
  const auto resolved = servers.resolve(name);
  if (!resolved) return error_response(resolved.error());
  for (const ModelStatus& status : servers.list()) {
    if (status.name != *resolved) continue;
    if (status.state == ModelState::kLoaded) return proxy_request(context, request, body);
    if (status.error) return model_error_response(*status.error);
    StoredModel model;
    model.name = status.name;
    return HttpResponse{.status = 200, .body = json::serialize(stored_details_json(model))};
  }
  return error_response(Error{ErrorCode::kNotFound, "the model is gone", "model"});
}

// The name of a model in a request that need not be served.
Result<std::string> required_name(const JsonFields& fields,
                                  std::initializer_list<std::string_view> fields_of_name) {
  for (const std::string_view field : fields_of_name) {
    TRY_ASSIGN(const auto name, fields.string(field));
    if (name && !name->empty()) return *name;
  }
  const std::string_view field = *fields_of_name.begin();
  return refuse(field, fmt::format("{} is required", field));
}

Result<std::string> model_of_body(const RequestBody& body) {
  TRY_ASSIGN(const JsonFields fields, body.fields());
  return required_name(fields, {"model", "name"});
}

std::optional<HttpResponse> refuse_change(const HandlerContext& context,
                                          const HttpRequest& request) {
  if (!is_operator(request, context.options)) {
    return error_response(
        HttpFault{403, "models are downloaded, copied and deleted with the key of an operator"});
  }
  if (context.options.model_library) return std::nullopt;
  return error_response(Error{
      ErrorCode::kUnsupported,
      "this server serves one model and has no library of models to download, copy or delete"});
}

Result<std::string> show_json(const ServiceApi& service, const ServerOptions& options,
                              const std::string& name) {
  if (check_model(name, service.card(), service.adapters()))
    return json::serialize(served_details_json(service));
  TRY_ASSIGN(const auto stored, stored_models(options));
  for (const StoredModel& model : stored) {
    if (is_same_model(model.name, name)) return json::serialize(stored_details_json(model));
  }
  return model_not_found(name, service.card());
}

}  // namespace

Reply handle_ollama_tags(const HandlerContext& context, const HttpRequest&) {
  if (context.options.router)
    return from_library([&context] { return router_tags_json(context.options); });
  return from_library([&context] { return server_tags_json(context.service, context.options); });
}

Reply handle_ollama_ps(const HandlerContext& context, const HttpRequest&) {
  if (context.options.router)
    return HttpResponse{.status = 200, .body = router_ps_json(context.options.router->models)};
  const json::object model = running_model_json(context.service.card(), context.options);
  return HttpResponse{.status = 200,
                      .body = json::serialize(json::object{{"models", json::array{model}}})};
}

Reply handle_ollama_show(const HandlerContext& context, const HttpRequest& request,
                         const RequestBody& body) {
  auto name = model_of_body(body);
  if (!name) return error_response(name.error());
  if (context.options.router) return show_router_model(context, request, body, *name);
  return from_library([&context, name = *std::move(name)] {
    return show_json(context.service, context.options, name);
  });
}

Reply handle_ollama_pull(const HandlerContext& context, const HttpRequest& request,
                         const RequestBody& body) {
  if (auto refused = refuse_change(context, request)) return *std::move(refused);
  auto name = model_of_body(body);
  if (!name) return error_response(name.error());
  const auto stream = JsonFields(*body.object).flag("stream");
  if (!stream) return error_response(stream.error());
  auto mailbox = context.pulls.pull(*context.options.model_library, *name);
  if (!mailbox) return error_response(mailbox.error());
  const auto kind =
      stream->value_or(true) ? PendingReply::Kind::kStream : PendingReply::Kind::kWhole;
  return std::make_unique<PullReply>(*std::move(mailbox), *std::move(name), kind);
}

Reply handle_ollama_delete(const HandlerContext& context, const HttpRequest& request,
                           const RequestBody& body) {
  if (auto refused = refuse_change(context, request)) return *std::move(refused);
  auto name = model_of_body(body);
  if (!name) return error_response(name.error());
  return from_library([&library = *context.options.model_library,
                       name = *std::move(name)]() -> Result<std::string> {
    TRY(library.remove(name));
    return std::string();
  });
}

Reply handle_ollama_copy(const HandlerContext& context, const HttpRequest& request,
                         const RequestBody& body) {
  if (auto refused = refuse_change(context, request)) return *std::move(refused);
  auto names = [&]() -> Result<std::pair<std::string, std::string>> {
    TRY_ASSIGN(const JsonFields fields, body.fields());
    TRY_ASSIGN(std::string from, required_name(fields, {"source"}));
    TRY_ASSIGN(std::string to, required_name(fields, {"destination"}));
    return std::pair(std::move(from), std::move(to));
  }();
  if (!names) return error_response(names.error());
  return from_library([&library = *context.options.model_library,
                       names = *std::move(names)]() -> Result<std::string> {
    TRY(library.copy(names.first, names.second));
    return std::string();
  });
}

}  // namespace kvik
