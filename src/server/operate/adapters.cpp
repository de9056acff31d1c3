#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "server/dialects/request_body.h"
#include "server/handlers.h"
#include "server/http/auth.h"
#include "server/http/status.h"
#include "service/adapters/adapter_registry.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr std::string_view kAdaptersPrefix = "/v1/adapters/";

// Only operators see paths on the server.
json::object card_json(const AdapterCard& card, bool is_operator) {
  json::object out{{"id", card.name},
                   {"object", "adapter"},
                   {"created", card.created_s},
                   {"scale", static_cast<double>(card.scale)},
                   {"loaded", card.loaded.has_value()}};
  if (is_operator) out["path"] = valid_utf8(card.path);
  if (card.loaded) {
    out["bytes"] = card.loaded->bytes;
    out["rank"] = card.loaded->rank;
    out["pairs"] = card.loaded->n_pairs;
    out["digest"] = card.loaded->digest;
  }
  return out;
}

HttpResponse json_response(const json::object& body) {
  return {.status = 200, .body = json::serialize(body)};
}

HttpResponse text_response(std::string text) {
  return {.status = 200, .body = std::move(text), .content_type = "text/plain; charset=utf-8"};
}

std::optional<HttpResponse> refuse_caller(const HandlerContext& context,
                                          const HttpRequest& request) {
  if (!is_operator(request, context.options)) {
    return error_response(
        HttpFault{403, "adapters are loaded and unloaded with the key of an operator"});
  }
  if (context.service.adapters()) return std::nullopt;
  return error_response(Error{ErrorCode::kUnsupported, "this server has no adapters"});
}

// Names of the fields in the two dialects.
struct NameFields {
  std::string_view name, path;
};
constexpr NameFields kOurs = {"name", "path"};
constexpr NameFields kVllm = {"lora_name", "lora_path"};

// Returns the error with the field name of the client's dialect.
Error with_dialect_param(const NameFields& words, Error error) {
  if (error.param == "name") error.param = words.name;
  // An invalid file is an invalid request.
  const bool is_of_file = error.code == ErrorCode::kCorrupt || error.code == ErrorCode::kIo ||
                          error.code == ErrorCode::kNotFound;
  if (is_of_file) error.code = ErrorCode::kInvalidArgument;
  if (error.param != words.name) error.param = words.path;
  return error;
}

Result<std::string> required_text(const JsonFields& fields, std::string_view name) {
  TRY_ASSIGN(auto text, fields.string(name));
  if (!text) return refuse(name, fmt::format("{} is missing", name));
  return *std::move(text);
}

struct LoadCall {
  std::string name, spec;
};

Result<LoadCall> parse_load(const RequestBody& body, const NameFields& words) {
  TRY_ASSIGN(const JsonFields fields, body.fields());
  LoadCall call;
  TRY_ASSIGN(call.name, required_text(fields, words.name));
  TRY_ASSIGN(call.spec, required_text(fields, words.path));
  TRY_ASSIGN(const auto scale, fields.number("scale"));
  call.spec += fmt::format(":{}", scale.value_or(1.0f));
  return call;
}

// Loads an adapter on another thread, because it reads a file. Borrows the context.
class LoadedLater final : public DeferredReply {
 public:
  using Answer = std::function<HttpResponse(const AdapterCard&)>;
  LoadedLater(const HandlerContext& context, LoadCall call, const NameFields& words, Answer answer)
      : context_(context), call_(std::move(call)), words_(words), answer_(std::move(answer)) {}

  Reply make() override {
    const auto card =
        context_.service.adapters()->add(call_.name, call_.spec, AdapterOrigin::kClient);
    if (!card) return error_response(with_dialect_param(words_, card.error()));
    return answer_(*card);
  }

 private:
  const HandlerContext& context_;
  const LoadCall call_;
  const NameFields words_;
  const Answer answer_;
};

Reply load(const HandlerContext& context, const HttpRequest& request, const RequestBody& body,
           const NameFields& words, LoadedLater::Answer answer) {
  if (auto refused = refuse_caller(context, request)) return *std::move(refused);
  auto call = parse_load(body, words);
  if (!call) return error_response(call.error());
  return std::make_unique<LoadedLater>(context, std::move(*call), words, std::move(answer));
}

}  // namespace

Reply handle_adapters(const HandlerContext& context, const HttpRequest& request,
                      const RequestBody& body) {
  if (request.method == "POST") {
    return load(context, request, body, kOurs,
                [](const AdapterCard& card) { return json_response(card_json(card, true)); });
  }
  json::array data;
  if (const AdapterRegistry* adapters = context.service.adapters()) {
    const bool by_operator = is_operator(request, context.options);
    for (const AdapterCard& card : adapters->list()) data.push_back(card_json(card, by_operator));
  }
  return json_response(json::object{{"object", "list"}, {"data", std::move(data)}});
}

Reply handle_adapter(const HandlerContext& context, const HttpRequest& request) {
  const std::string name = request.path.substr(kAdaptersPrefix.size());
  if (request.method == "DELETE") {
    if (auto refused = refuse_caller(context, request)) return *std::move(refused);
    const auto removed = context.service.adapters()->remove(name);
    if (!removed) return error_response(removed.error());
    return json_response(json::object{{"id", name}, {"object", "adapter"}, {"deleted", true}});
  }
  if (const AdapterRegistry* adapters = context.service.adapters()) {
    for (const AdapterCard& card : adapters->list()) {
      if (card.name != name) continue;
      return json_response(card_json(card, is_operator(request, context.options)));
    }
  }
  return error_response(Error{ErrorCode::kNotFound,
                              fmt::format("there is no adapter '{}'", printable(name)), "model"});
}

// Responds as vLLM does.
Reply handle_load_lora_adapter(const HandlerContext& context, const HttpRequest& request,
                               const RequestBody& body) {
  return load(context, request, body, kVllm, [](const AdapterCard& card) {
    return text_response(fmt::format("Success: LoRA adapter '{}' added successfully.", card.name));
  });
}

Reply handle_unload_lora_adapter(const HandlerContext& context, const HttpRequest& request,
                                 const RequestBody& body) {
  if (auto refused = refuse_caller(context, request)) return *std::move(refused);
  const auto removed = [&]() -> Result<std::string> {
    TRY_ASSIGN(const JsonFields fields, body.fields());
    TRY_ASSIGN(std::string name, required_text(fields, kVllm.name));
    TRY(context.service.adapters()->remove(name));
    return name;
  }();
  if (!removed) return error_response(removed.error());
  return text_response(
      fmt::format("Success: LoRA adapter '{}' removed successfully.", printable(*removed)));
}

}  // namespace kvik
