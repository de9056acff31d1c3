#include "server/dialects/chat/chat_call.h"

#include <fmt/format.h>

#include <utility>

#include "server/dialects/chat/chat_request.h"
#include "server/dialects/json_fields.h"
#include "server/dialects/messages/messages_request.h"
#include "service/request_bounds.h"

namespace kvik {
namespace {

namespace json = boost::json;

// Chat's own names for what /v1/completions has too: max_completion_tokens, and logprobs as a flag
// beside top_logprobs.
Result<void> rename_fields(json::object& object) {
  const JsonFields fields(object);
  TRY_ASSIGN(const auto max_tokens, fields.count<uint64_t>("max_completion_tokens"));
  TRY_ASSIGN(const auto logprobs, fields.boolean("logprobs"));
  TRY_ASSIGN(const auto n_top, fields.count<uint32_t>("top_logprobs"));
  if (n_top && *n_top > 0 && !logprobs.value_or(false)) {
    return fail(ErrorCode::kInvalidArgument, "top_logprobs needs logprobs to be true",
                "top_logprobs");
  }
  if (n_top && *n_top > RequestBounds::kLogprobs) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("top_logprobs is {}, at most {} are given", *n_top, RequestBounds::kLogprobs),
        "top_logprobs");
  }
  if (max_tokens) object["max_tokens"] = *max_tokens;
  object.erase("logprobs");
  if (logprobs.value_or(false)) object["logprobs"] = n_top.value_or(0);
  object.erase("echo");
  return {};
}

}  // namespace

Result<CompletionCall> make_chat_call(const ServiceApi& service,
                                      const boost::json::object& object) {
  using Begin = ReasoningSplitter::Begin;
  TRY_ASSIGN(const ChatRequest chat, read_chat_request(object));
  TRY_ASSIGN(CompletionCall call, read_common_call(object));
  TRY_ASSIGN(ChatPrompt prompt, service.chat_prompt(chat));
  CompletionRequest& request = call.requests.front();
  request.prompt = std::move(prompt.ids);
  request.pins = std::move(prompt.pins);
  if (!JsonFields(object).find("max_tokens")) request.max_tokens.reset();
  request.answer_begin = prompt.ends_in_thought ? Begin::kThought : Begin::kAnswer;
  return call;
}

Result<CompletionCall> parse_chat_call(const ServiceApi& service, std::string_view body) {
  TRY_ASSIGN(json::object object, parse_json_object(body));
  TRY(rename_fields(object));
  return make_chat_call(service, object);
}

Result<CompletionCall> parse_messages_call(const ServiceApi& service, std::string_view body) {
  TRY_ASSIGN(json::object object, parse_json_object(body));
  TRY_ASSIGN(const json::object chat, to_chat_body(std::move(object)));
  return make_chat_call(service, chat);
}

}  // namespace kvik
