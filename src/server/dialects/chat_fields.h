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

// What the dialects of chats share. All errors: kInvalidArgument, kUnsupported, with the field in
// `param`.

// Reads the marks of one conversation, the cache_control of its parts and tools: four at most, as
// with Anthropic.
class CacheMarks {
 public:
  // For how long what ends with this part is worth keeping; nullopt where it has no mark.
  Result<std::optional<Duration>> read(const boost::json::object& part);

 private:
  size_t n_ = 0;
};

// How a dialect writes a content of texts, and what it says of another one.
struct TextWords {
  std::string_view param;
  std::string_view expected;                       // "a string or an array of blocks"
  std::string_view made_of;                        // "made of blocks"; empty: as `refusal`
  std::vector<std::string_view> types = {"text"};  // of a part that is a text; "": it needs none
  std::string_view refusal = "a part of a message's content is no text, expected only text";
};

// Returns an error that names images, audio, video or files, if a part of that type holds them:
// kUnsupported.
Result<void> check_medium(std::string_view type, std::string_view param);

// A string, or parts that are all text.
Result<std::vector<MessagePart>> read_texts(const boost::json::value& content,
                                            const TextWords& words, CacheMarks& marks);

// Takes a tool as the template is to see it. A mark on any tool is taken for one behind all of
// them: they are written as one piece.
Result<void> add_tool(const boost::json::object& tool, Json shown, CacheMarks& marks,
                      ChatRequest& chat);

// Before the first is read: a body may hold no more than these.
Result<void> check_n_messages(size_t n);
Result<void> check_n_tools(size_t n);

// OpenAI's tool_choice, of chats and of responses: "none" takes the tools away.
Result<void> read_tool_choice(const JsonFields& fields, ChatRequest& chat);

// parallel_tool_calls: false ends the answer behind its first call.
Result<void> read_parallel_calls(const JsonFields& fields, CompletionCall& call);

// How much the model is to think: reasoning_effort, enable_thinking, and
// "thinking": {"type": "enabled" | "disabled" | "adaptive", "budget_tokens": …}.
Result<void> read_thinking(const JsonFields& fields, ChatRequest& chat);

// chat_template_kwargs.
Result<void> read_template_options(const JsonFields& fields, ChatRequest& chat);

// The call with the prompt that the model's template makes of the conversation. Errors of
// ServiceApi::chat_prompt() besides.
Result<CompletionCall> with_prompt(const ServiceApi& service, const ChatRequest& chat,
                                   CompletionCall call);

}  // namespace kvik
