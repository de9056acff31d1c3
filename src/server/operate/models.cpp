#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <optional>
#include <utility>

#include "server/dialects/ollama/ollama_model_json.h"
#include "server/dialects/utc_time.h"
#include "server/handlers.h"
#include "server/http/status.h"
#include "server/operate/router_models.h"
#include "service/adapters/adapter_registry.h"
#include "service/check_request.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr std::string_view kModelsPrefix = "/v1/models/";

std::string created_at(uint64_t seconds) {
  return utc_time(std::chrono::sys_seconds(std::chrono::seconds(seconds)));
}

// Fields for OpenAI's and for Anthropic's clients.
json::object card_json(const ModelCard& card, std::string_view id) {
  return {{"id", id},
          {"object", "model"},
          {"created", card.created_s},
          {"owned_by", "kvik"},
          {"type", "model"},
          {"display_name", card.id.text()},
          {"created_at", created_at(card.created_s)},
          {"max_model_len", card.n_ctx_max}};
}

// Returns the fields for an adapter, with its base model, as vLLM does.
json::object adapter_json(const ModelCard& card, const AdapterCard& adapter) {
  json::object out = card_json(card, adapter.name);
  out["created"] = adapter.created_s;
  out["display_name"] = adapter.name;
  out["created_at"] = created_at(adapter.created_s);
  out["parent"] = card.id.text();
  out["root"] = adapter.name;
  return out;
}

std::optional<AdapterCard> find_adapter(const ServiceApi& service, std::string_view model) {
  const auto name = adapter_name(service.adapters(), service.card(), model);
  if (!name) return std::nullopt;
  for (AdapterCard& card : service.adapters()->list()) {
    if (card.name == *name) return std::move(card);
  }
  return std::nullopt;
}

}  // namespace

Reply handle_models(const HandlerContext& context, const HttpRequest& request) {
  if (context.options.router) return router_models(context, request);
  const ModelCard& card = context.service.card();
  json::array data{card_json(card, card.id.text())};
  std::string last_id = card.id.text();
  for (const std::string& alias : card.aliases) {
    if (alias == "*") continue;
    data.emplace_back(card_json(card, alias));
    last_id = alias;
  }
  if (const AdapterRegistry* adapters = context.service.adapters()) {
    for (const AdapterCard& adapter : adapters->list()) {
      data.emplace_back(adapter_json(card, adapter));
      last_id = adapter.name;
    }
  }
  const json::object out{{"object", "list"},
                         {"data", std::move(data)},
                         {"has_more", false},
                         {"first_id", card.id.text()},
                         {"last_id", last_id}};
  return HttpResponse{.status = 200, .body = json::serialize(out)};
}

Reply handle_model(const HandlerContext& context, const HttpRequest& request) {
  const std::string_view id = std::string_view(request.path).substr(kModelsPrefix.size());
  return context.options.router ? router_model(context, id) : served_model(context, id);
}

HttpResponse served_model(const HandlerContext& context, std::string_view id) {
  const ModelCard& card = context.service.card();
  if (const auto adapter = find_adapter(context.service, id)) {
    return HttpResponse{.status = 200, .body = json::serialize(adapter_json(card, *adapter))};
  }
  if (!is_name_of(card, id))
    return error_response(
        Error{ErrorCode::kNotFound,
              fmt::format("the model is {}, not {} (kvik serve --alias '*' answers to any name)",
                          card.id.text(), printable(id)),
              "model"});
  return HttpResponse{.status = 200, .body = json::serialize(card_json(card, id))};
}

// Properties that llama.cpp's clients request.
Reply handle_props(const HandlerContext& context, const HttpRequest&) {
  const ModelCard& card = context.service.card();
  const json::object out{{"default_generation_settings", {{"n_ctx", card.n_ctx_max}}},
                         {"model_alias", card.id.text()},
                         {"model_path", card.id.text()},
                         {"architecture", card.architecture.text()},
                         {"n_ctx_train", card.n_ctx_train},
                         {"n_vocab", card.n_vocab},
                         {"n_embd", card.model_dim},
                         {"capabilities", capabilities_json(context.service)},
                         {"chat_template", card.chat_template},
                         {"build_info", context.options.version}};
  return HttpResponse{.status = 200, .body = json::serialize(out)};
}

}  // namespace kvik
