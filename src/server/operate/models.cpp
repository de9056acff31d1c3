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
  return {{"id", card.id},
          {"object", "model"},
          {"created", card.created_s},
          {"owned_by", "kvik"},
          {"max_model_len", card.n_ctx_max}};
}

}  // namespace

Reply handle_models(const HandlerContext& context, const HttpRequest&) {
  const json::object out{{"object", "list"},
                         {"data", json::array{card_json(context.service.card())}}};
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
  const json::object out{{"default_generation_settings", {{"n_ctx", card.n_ctx_max}}},
                         {"model_alias", card.id},
                         {"model_path", card.id},
                         {"architecture", card.architecture},
                         {"n_ctx_train", card.n_ctx_train},
                         {"n_vocab", card.n_vocab},
                         {"n_embd", card.model_dim},
                         {"chat_template", card.chat_template},
                         {"build_info", context.options.version}};
  return HttpResponse{.status = 200, .body = json::serialize(out)};
}

}  // namespace kvik
