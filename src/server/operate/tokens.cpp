#include <fmt/format.h>

#include <iterator>
#include <memory>
#include <utility>

#include "server/dialects/chat/chat_request.h"
#include "server/dialects/json_body.h"
#include "server/dialects/json_fields.h"
#include "server/handlers.h"
#include "server/http/status.h"

namespace kvik {
namespace {

struct Tokenized {
  std::vector<TokenId> ids;
  bool is_vllms = true;  // format of the request, and therefore of the answer
};

// Tokenizes "content" (llama.cpp), "prompt" (vLLM) or the conversation in "messages" (vLLM). By
// default a prompt gets the tokens that /v1/completions would compute.
Result<Tokenized> tokenize(const ServiceApi& service, const RequestBody& body) {
  TRY_ASSIGN(const JsonFields fields, body.fields());
  if (fields.find("messages")) {
    TRY_ASSIGN(const ChatRequest chat, read_chat_request(fields));
    TRY_ASSIGN(ChatPrompt prompt, service.chat_prompt(chat));
    return Tokenized{.ids = std::move(prompt.ids)};
  }
  const bool is_prompt = !fields.find("content");
  TRY_ASSIGN(const auto text, fields.text(is_prompt ? "prompt" : "content"));
  if (!text) return refuse("content", "content, prompt or messages is missing");
  TRY_ASSIGN(auto add_special, fields.flag("add_special"));
  if (!add_special) {
    TRY_ASSIGN(add_special, fields.flag("add_special_tokens"));  // vLLM's name
  }
  TRY_ASSIGN(const auto parse_special, fields.flag("parse_special"));
  return Tokenized{
      .ids = service.tokenize(*text, {.add_bos = add_special.value_or(is_prompt),
                                      .parse_special = parse_special.value_or(is_prompt)}),
      .is_vllms = is_prompt};
}

Result<std::vector<TokenId>> parse_detokenize_call(const RequestBody& body) {
  TRY_ASSIGN(const JsonFields fields, body.fields());
  TRY_ASSIGN(const boost::json::array* array, fields.list("tokens"));
  if (!array) return refuse("tokens", "tokens is missing");
  return read_token_ids("tokens", *array);
}

}  // namespace

Reply handle_tokenize(const HandlerContext& context, const HttpRequest&, const RequestBody& body) {
  auto tokens = tokenize(context.service, body);
  if (!tokens) return error_response(tokens.error());
  std::vector<TokenId> ids = std::move(tokens->ids);
  ByteShare share(context.memory.answers);
  if (!share.grow(ids.size() * sizeof(TokenId))) return error_response(no_memory());
  constexpr size_t kDigits = 8;  // per token id, including a comma
  auto answer = std::make_unique<JsonBody>(ids.size() * kDigits, std::move(share));
  const size_t n = ids.size();
  const std::string counts =
      fmt::format(R"("count":{},"max_model_len":{},)", n, context.service.card().n_ctx_max);
  answer->text(fmt::format(R"({{{}"tokens":[)", tokens->is_vllms ? counts : ""));
  answer->each(n, [ids = std::move(ids)](size_t i, std::string& out) {
    fmt::format_to(std::back_inserter(out), "{}", ids[i]);
  });
  answer->text("]}");
  return HttpResponse{.status = 200, .body = "", .source = std::move(answer)};
}

Reply handle_detokenize(const HandlerContext& context, const HttpRequest&,
                        const RequestBody& body) {
  const auto ids = parse_detokenize_call(body);
  if (!ids) return error_response(ids.error());
  auto text = context.service.detokenize(*ids);
  if (!text) return error_response(text.error());
  return text_response(context.memory, "content", std::move(*text));
}

}  // namespace kvik
