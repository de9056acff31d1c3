#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/dialects/completion_call.h"
#include "server/dialects/json_fields.h"
#include "service/service_api.h"

namespace kvik {

// Fields common to the chat dialects. All errors: kInvalidArgument, kUnsupported, with the field in
// `param`.

// Reads the marks of a conversation, the cache_control of its parts and tools: at most four, as in
// Anthropic's API.
class CacheMarks {
 public:
  // Returns how long the prefix that ends with this part is worth keeping; std::nullopt without a
  // mark.
  Result<std::optional<Duration>> read(const boost::json::object& part);

 private:
  size_t n_ = 0;
};

// A dialect's description of text content, for its errors.
struct TextWords {
  std::string_view param;
  std::string_view expected;                       // "a string or an array of blocks"
  std::string_view made_of;                        // "made of blocks"; empty: as `refusal`
  std::vector<std::string_view> types = {"text"};  // types of text parts; "": no type required
  std::string_view refusal = "a part of a message's content is not text; only text is supported";
};

// Returns kUnsupported, naming images, audio, video or files, if that type of part contains them.
Result<void> check_medium(std::string_view type, std::string_view param);

// Reads a string, or parts that are all text.
Result<std::vector<MessagePart>> read_texts(const boost::json::value& content,
                                            const TextWords& words, CacheMarks& marks);

// Adds a tool in the form shown to the template. A mark on any tool counts as a mark after all of
// them, because they are rendered as one piece.
Result<void> add_tool(const boost::json::object& tool, Json shown, CacheMarks& marks,
                      ChatRequest& chat);

// Called before the first one is read: a body may not contain more.
Result<void> check_n_messages(size_t n);
Result<void> check_n_tools(size_t n);

// Reads OpenAI's tool_choice of chats and responses.
Result<void> read_tool_choice(const JsonFields& fields, ChatRequest& chat);

// Reads parallel_tool_calls: false ends the answer after its first call.
Result<void> read_parallel_calls(const JsonFields& fields, CompletionCall& call);

// Reads the reasoning effort and budget, by the names that the dialects and other servers use:
// reasoning_effort, enable_thinking, "reasoning": {"effort": …, "enabled": …, "max_tokens": …},
// thinking_budget, thinking_token_budget, reasoning_budget, and "thinking": {"type": "enabled" |
// "disabled" | "adaptive", "budget_tokens": …}.
Result<void> read_thinking(const JsonFields& fields, ChatRequest& chat);

// Reads chat_template_kwargs.
Result<void> read_template_options(const JsonFields& fields, ChatRequest& chat);

// Returns the call with the prompt rendered from the conversation by the model's template. Answers
// that the client sends back get their own tokens if `client` (RequestBody::client) is not empty.
// Errors: also those of ServiceApi::chat_prompt().
Result<CompletionCall> with_prompt(const ServiceApi& service, ChatRequest chat,
                                   std::string_view client, CompletionCall call);

}  // namespace kvik
