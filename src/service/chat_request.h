#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/token_id.h"
#include "engine/request/request.h"
#include "service/answer_parts.h"
#include "service/history/answer_memory.h"
#include "service/message.h"
#include "service/structured_output/structured_output.h"

namespace kvik {

// The beginning of a conversation, with exactly the tokens that the model read and generated.
struct HistoryTokens {
  std::string text;
  std::vector<TokenId> ids;
};

// The requested amount of reasoning. It is passed to the template under the variable names that the
// template uses.
struct ReasoningOptions {
  std::optional<std::string> effort;      // "low", "medium", "high", …
  std::optional<bool> is_enabled;         // false: no reasoning
  std::optional<uint64_t> budget_tokens;  // maximum number of reasoning tokens
};

// Requires the answer to be a tool call.
struct ForcedCalls {
  std::vector<std::string> names;  // allowed tools; empty: all
  bool is_one = false;             // exactly one call
};

// A conversation and the options of its next answer. Its strings are user input: special tokens in
// them are treated as plain text.
struct ChatRequest {
  std::vector<Message> messages;
  std::vector<Json> tools = {};                    // tool definitions as passed to the template
  std::set<std::string, std::less<>> strict = {};  // tools whose calls must match their schema
  // Requested lifetime of the cached prefix that ends with the tools.
  std::optional<Duration> tools_pin_ttl = {};
  // Additional template variables. They never override the variables that Kvik sets, except
  // `documents`, which is None by default.
  Json::Fields kwargs = {};
  ReasoningOptions thinking = {};
  std::optional<ForcedCalls> forced = {};  // absent: the model decides whether to call a tool
  // The answer calls no tool. The prompt has the tools all the same, so that its prefix is cached.
  bool forbids_calls = false;
  JsonStyle style = {};  // style of arguments that are constrained by a schema
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the prompt ends inside the last message
  // If the prompt begins with this text and continues with a special token, these ids are used for
  // it. A model may generate text in other tokens than the tokenizer would produce for it;
  // retokenizing would then invalidate the K/V of all later tokens.
  HistoryTokens history_tokens = {};
  // Owner of the answers whose exact tokens may be used (AnswerMemory).
  AnswerOwner owner = {};
};

// The answer to a prompt, as far as the prompt determines it: see RememberedAnswer.
struct AnswerOrigin {
  std::string client;            // as in AnswerOwner
  ConversationKey conversation;  // before the answer
  std::string opening;
};

struct ChatPrompt {
  std::vector<TokenId> ids;
  // kReasoning: the prompt ends inside a reasoning block
  AnswerBegin answer_begin = AnswerBegin::kText;
  AnswerSyntax answer_syntax = {};
  std::string text = {};
  std::vector<Pin> pins = {};                     // prefixes with a requested keep time
  std::optional<uint64_t> reasoning_budget = {};  // OutputOptions::reasoning_budget
  // Number of tokens up to the end of the last message, before the generation prompt. In the next
  // turn the template may drop this answer's reasoning, so a later prompt may share the prefix only
  // up to this position.
  std::optional<uint32_t> last_message_end = {};
  uint32_t n_restored = 0;  // tokens of earlier answers that replace the template's own text
  // Set if the answer is to be remembered.
  std::optional<AnswerOrigin> origin = {};
};

}  // namespace kvik
