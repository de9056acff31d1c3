#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "server/handlers.h"
#include "server/http/status.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr std::string_view kModelsPrefix = "/v1/models/";

json::object card_json(const ModelCard& card) {
  json::object out;
  out["id"] = json::string(card.id.data(), card.id.size());
  out["object"] = "model";
  out["created"] = card.created_s;
  out["owned_by"] = "kvik";
  out["max_model_len"] = card.n_ctx_max;
  return out;
}

}  // namespace

Reply handle_models(const HandlerContext& context, const HttpRequest&) {
  json::object out;
  out["object"] = "list";
  out["data"] = json::array{card_json(context.service.card())};
  return HttpResponse{.status = 200, .body = json::serialize(out)};
}

Reply handle_model(const HandlerContext& context, const HttpRequest& request) {
  const ModelCard& card = context.service.card();
  const std::string_view id = std::string_view(request.path).substr(kModelsPrefix.size());
  if (id != card.id)
    return error_response(Error{ErrorCode::kNotFound,
                                fmt::format("the model is {}, not {}", card.id, printable(id)),
                                "model"});
  return HttpResponse{.status = 200, .body = json::serialize(card_json(card))};
}

// What llama.cpp's clients ask a server for.
Reply handle_props(const HandlerContext& context, const HttpRequest&) {
  const ModelCard& card = context.service.card();
  json::object settings;
  settings["n_ctx"] = card.n_ctx_max;
  json::object out;
  out["default_generation_settings"] = std::move(settings);
  out["model_alias"] = json::string(card.id.data(), card.id.size());
  out["model_path"] = json::string(card.id.data(), card.id.size());
  out["architecture"] = json::string(card.architecture.data(), card.architecture.size());
  out["n_ctx_train"] = card.n_ctx_train;
  out["n_vocab"] = card.n_vocab;
  out["n_embd"] = card.model_dim;
  out["chat_template"] = json::string(card.chat_template.data(), card.chat_template.size());
  out["build_info"] = context.options.version;
  return HttpResponse{.status = 200, .body = json::serialize(out)};
}

}  // namespace kvik
