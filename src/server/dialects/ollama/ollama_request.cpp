#include "server/dialects/ollama/ollama_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <iterator>
#include <utility>

#include "server/dialects/cache_fields.h"
#include "server/dialects/chat_fields.h"
#include "server/dialects/fill_in_middle.h"
#include "server/dialects/ollama/ollama_fields.h"
#include "server/dialects/ollama/ollama_messages.h"
#include "server/dialects/ollama/prompt_template.h"

namespace kvik {
namespace {

namespace json = boost::json;
using Kind = OllamaCall::Kind;
using TokenIds = std::vector<TokenId>;

constexpr size_t kMaxTexts = 2048;

// The fields of /api/generate that make the prompt. Texts are empty if absent.
struct GenerateFields {
  std::string prompt, system, suffix, prompt_template;
  TokenIds context;
  bool is_raw = false;
};

Result<std::string> text_field(const JsonFields& fields, std::string_view name) {
  TRY_ASSIGN(auto text, fields.text(name));
  return std::move(text).value_or("");
}

Result<GenerateFields> read_generate_fields(const JsonFields& fields) {
  GenerateFields out;
  TRY_ASSIGN(out.prompt, text_field(fields, "prompt"));
  TRY_ASSIGN(out.system, text_field(fields, "system"));
  TRY_ASSIGN(out.suffix, text_field(fields, "suffix"));
  TRY_ASSIGN(out.prompt_template, text_field(fields, "template"));
  TRY_ASSIGN(const json::array* context, fields.list("context"));
  if (context) {
    TRY_ASSIGN(out.context, read_token_ids("context", *context));
  }
  TRY_ASSIGN(const auto raw, fields.flag("raw"));
  out.is_raw = raw.value_or(false);
  TRY(check_no_images(fields));
  if (out.is_raw && (!out.prompt_template.empty() || !out.system.empty() || !out.context.empty())) {
    return refuse("raw", "raw mode does not support template, system, or context");
  }
  return out;
}

// Puts the tokens of an earlier exchange before the prompt.
void add_context(const ServiceApi& service, const TokenIds& context, CompletionRequest& request) {
  auto& ids = std::get<TokenIds>(request.prompt);
  if (context.empty()) return;
  const auto begin = begin_token(service);
  const bool repeats_begin =
      begin && !ids.empty() && ids.front() == *begin && context.front() == *begin;
  if (repeats_begin) ids.erase(ids.begin());
  const size_t n_more = context.size() - (repeats_begin ? 1 : 0);
  ids.insert(ids.begin(), context.begin(), context.end());
  for (uint32_t& end : request.engine.message_ends) end += static_cast<uint32_t>(n_more);
}

Result<CompletionCall> with_conversation(const ServiceApi& service, const JsonFields& fields,
                                         const GenerateFields& given, CompletionCall call) {
  ChatRequest chat;
  if (!given.system.empty()) chat.messages.push_back(text_message("system", given.system));
  chat.messages.push_back(text_message("user", given.prompt));
  TRY_ASSIGN(chat.thinking, read_think(fields));
  TRY(read_template_options(fields, chat));
  return with_prompt(service, std::move(chat), "", std::move(call));
}

// Makes the prompt of a request that is not raw.
Result<CompletionCall> with_generate_prompt(const ServiceApi& service, const JsonFields& fields,
                                            const GenerateFields& given, CompletionCall call) {
  CompletionRequest& request = call.requests.front();
  if (!given.prompt_template.empty()) {
    TRY_ASSIGN(
        const std::string text,
        render_prompt_template(given.prompt_template, {given.system, given.prompt, given.suffix}));
    request.prompt = service.tokenize(text, {.add_bos = true, .parse_special = true});
    return call;
  }
  if (given.suffix.empty()) return with_conversation(service, fields, given, std::move(call));
  TRY_ASSIGN(
      request.prompt,
      fill_in_middle_prompt(service, {.prefix = given.prompt, .suffix = given.suffix}, "suffix"));
  return call;
}

// Counts the tokens of prompt and answer, which the answer repeats.
void count_context(const ServiceApi& service, CompletionCall& call, size_t n_prompt) {
  const uint64_t n_ctx = service.card().n_ctx_max;
  const uint64_t n_left = n_ctx - std::min<uint64_t>(n_ctx, n_prompt);
  const uint64_t n_answer = std::min(call.requests.front().max_tokens.value_or(n_left), n_left);
  call.kept_bytes = sizeof(TokenId) * (n_prompt + n_answer);
}

Result<Kind> kind_without_prompt(const JsonFields& fields) {
  TRY_ASSIGN(const bool is_zero, is_keep_alive_zero(fields));
  return is_zero ? Kind::kUnload : Kind::kLoad;
}

Result<EmbeddingRequest> embedding_request(const JsonFields& fields) {
  EmbeddingRequest request;
  TRY_ASSIGN(request.n_dims, fields.count<uint32_t>("dimensions"));
  if (request.n_dims == 0) request.n_dims.reset();
  CompletionRequest owner;
  TRY(read_cache_fields(fields, owner));
  request.engine = std::move(owner.engine);
  return request;
}

// Returns the texts to embed. An empty text that is not in an array counts as none.
Result<std::vector<std::string_view>> read_texts_to_embed(const JsonFields& fields,
                                                          std::string_view name) {
  std::vector<std::string_view> texts;
  const json::value* value = fields.find(name);
  if (!value) return texts;
  if (const json::string* text = value->if_string()) {
    if (!text->empty()) texts.push_back(view(*text));
    return texts;
  }
  const json::array* array = value->if_array();
  if (!array || name == "prompt") {
    return wrong_type(name, name == "prompt" ? "a string" : "a string or an array of strings",
                      *value);
  }
  if (array->size() > kMaxTexts)
    return refuse(name, fmt::format("{} holds {} texts, at most {} are allowed", name,
                                    array->size(), kMaxTexts));
  for (const json::value& text : *array) {
    if (!text.is_string()) return wrong_type(name, "a string or an array of strings", text);
    texts.push_back(view(text.get_string()));
  }
  return texts;
}

}  // namespace

Result<OllamaCall> parse_generate_call(const ServiceApi& service, const RequestBody& body) {
  TRY_ASSIGN(const JsonFields fields, body.fields());
  TRY_ASSIGN(auto name, read_ollama_name(service, fields));
  TRY_ASSIGN(const GenerateFields given, read_generate_fields(fields));
  OllamaCall out;
  out.model = name.value_or(service.card().id.text());
  TRY_ASSIGN(const Kind without_prompt, kind_without_prompt(fields));
  if (given.prompt.empty() && given.suffix.empty()) {
    out.kind = without_prompt;
    return out;
  }
  TRY_ASSIGN(out.call, read_ollama_call(fields, body.text));
  out.call.requests.front().model = std::move(name);
  if (given.is_raw && given.suffix.empty()) {
    out.call.requests.front().prompt = given.prompt;
    return out;
  }
  TRY_ASSIGN(out.call, with_generate_prompt(service, fields, given, std::move(out.call)));
  CompletionRequest& request = out.call.requests.front();
  add_context(service, given.context, request);
  request.output.return_token_ids = true;
  out.context = std::get<TokenIds>(request.prompt);
  count_context(service, out.call, out.context->size());
  return out;
}

Result<OllamaCall> parse_ollama_chat_call(const ServiceApi& service, const RequestBody& body) {
  TRY_ASSIGN(const JsonFields fields, body.fields());
  TRY_ASSIGN(auto name, read_ollama_name(service, fields));
  OllamaCall out;
  out.model = name.value_or(service.card().id.text());
  TRY_ASSIGN(const json::array* messages, fields.list("messages"));
  TRY_ASSIGN(const Kind without_messages, kind_without_prompt(fields));
  if (!messages || messages->empty()) {
    out.kind = without_messages;
    return out;
  }
  TRY_ASSIGN(out.call, read_ollama_call(fields, body.text));
  out.call.requests.front().model = std::move(name);
  TRY_ASSIGN(const ChatRequest chat, read_ollama_chat(fields));
  TRY_ASSIGN(out.call, with_prompt(service, chat, body.client, std::move(out.call)));
  return out;
}

Result<OllamaEmbedCall> parse_embed_call(const ServiceApi& service, const RequestBody& body,
                                         std::string_view input) {
  TRY_ASSIGN(const JsonFields fields, body.fields());
  TRY_ASSIGN(auto name, read_ollama_name(service, fields));
  OllamaEmbedCall out;
  out.model = name.value_or(service.card().id.text());
  TRY(is_keep_alive_zero(fields));
  TRY_ASSIGN(const auto truncate, fields.flag("truncate"));
  TRY_ASSIGN(EmbeddingRequest common, embedding_request(fields));
  common.model = std::move(name);
  if (truncate.value_or(true)) common.truncate_to = 0;
  TRY_ASSIGN(const auto texts, read_texts_to_embed(fields, input));
  for (const std::string_view text : texts) {
    TokenIds ids = service.tokenize(text, {.add_bos = true});
    if (ids.empty()) return refuse(input, fmt::format("a text of {} is empty", input));
    out.call.requests.push_back(common);
    out.call.requests.back().engine.prompt = std::move(ids);
  }
  return out;
}

}  // namespace kvik
