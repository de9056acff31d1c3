#include <fmt/format.h>

#include <iterator>
#include <memory>
#include <utility>

#include "server/dialects/json_body.h"
#include "server/dialects/json_fields.h"
#include "server/handlers.h"
#include "server/http/status.h"

namespace kvik {
namespace {

namespace json = boost::json;

struct TokenizeCall {
  std::string text;
  TokenizeOptions options;
};

// llama.cpp says "content", vLLM "prompt".
Result<TokenizeCall> parse_tokenize_call(std::string_view body) {
  TRY_ASSIGN(const json::object object, parse_json_object(body));
  const JsonFields fields(object);
  TRY_ASSIGN(auto text, fields.text(fields.find("content") ? "content" : "prompt"));
  if (!text) return refuse("content", "content is missing");
  TRY_ASSIGN(const auto add_special, fields.boolean("add_special"));
  TRY_ASSIGN(const auto parse_special, fields.boolean("parse_special"));
  return TokenizeCall{
      std::move(*text),
      {.add_bos = add_special.value_or(false), .parse_special = parse_special.value_or(false)}};
}

Result<std::vector<TokenId>> parse_detokenize_call(std::string_view body) {
  TRY_ASSIGN(const json::object object, parse_json_object(body));
  TRY_ASSIGN(const auto array, JsonFields(object).array("tokens"));
  if (!array) return refuse("tokens", "tokens is missing");
  return read_token_ids("tokens", **array);
}

}  // namespace

Reply handle_tokenize(const HandlerContext& context, const HttpRequest& request) {
  const auto call = parse_tokenize_call(request.body);
  if (!call) return error_response(call.error());
  auto ids = context.service.tokenize(call->text, call->options);
  ByteShare share(context.memory.answers);
  if (!share.grow(ids.size() * sizeof(TokenId))) return error_response(no_memory());
  constexpr size_t kDigits = 8;  // and a comma
  auto body = std::make_unique<JsonBody>(ids.size() * kDigits, std::move(share));
  body->text(R"({"tokens":[)");
  const size_t n = ids.size();
  body->each(n, [ids = std::move(ids)](size_t i, std::string& out) {
    fmt::format_to(std::back_inserter(out), "{}", ids[i]);
  });
  body->text("]}");
  return HttpResponse{.status = 200, .body = "", .source = std::move(body)};
}

Reply handle_detokenize(const HandlerContext& context, const HttpRequest& request) {
  const auto ids = parse_detokenize_call(request.body);
  if (!ids) return error_response(ids.error());
  auto text = context.service.detokenize(*ids);
  if (!text) return error_response(text.error());
  return text_response(context.memory, "content", std::move(*text));
}

}  // namespace kvik
