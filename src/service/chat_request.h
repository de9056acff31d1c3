#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/token_id.h"
#include "engine/request/request.h"
#include "service/answer_parts.h"
#include "service/forms/answer_form.h"
#include "service/message.h"

namespace kvik {

// The beginning of a conversation in the very tokens that a model was fed and said.
struct SpokenTokens {
  std::string text;
  std::vector<TokenId> ids;
};

// How much a model is to think; it reaches the template under the names that it knows.
struct ThinkingWish {
  std::optional<std::string> effort;      // "low", "medium", "high", …
  std::optional<bool> thinks;             // at all
  std::optional<uint64_t> budget_tokens;  // at most
};

// The answer is to be a call.
struct ForcedCalls {
  std::vector<std::string> names;  // of one of these tools; empty: of any
  bool is_one = false;             // and no more than one
};

// A conversation that a model is to go on with. Strings in it are a user's words: no special token
// in them counts.
struct ChatRequest {
  std::vector<Message> messages;
  std::vector<Json> tools = {};                    // as the template writes them
  std::set<std::string, std::less<>> strict = {};  // names of tools whose schemas calls must keep
  std::optional<Duration> keep_tools_for = {};     // the prefix up to their end, for so long
  // Further names that the template may ask for. They never replace those that Kvik sets
  // (THREATS 22).
  Json::Fields kwargs = {};
  ThinkingWish thinking = {};
  std::optional<ForcedCalls> forced = {};  // absent: the model may call or not
  JsonStyle style = {};                    // of the arguments of calls that keep to a schema
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the prompt ends inside the last message
  // Where the prompt begins with this text, and the template goes on with a special token, it keeps
  // these ids. A model may say a word in other tokens than a tokenizer would cut it into: all K and
  // V behind it would be computed again.
  SpokenTokens spoken = {};
};

struct ChatPrompt {
  std::vector<TokenId> ids;
  AnswerBegin answer_begin = AnswerBegin::kText;  // kThought: the template opened one
  AnswerSyntax answer_syntax = {};
  std::string text = {};
  std::vector<Pin> pins = {};  // of the marks that the prompt shows
  // Where the last message ends, in front of what the template begins the answer with: what comes
  // there again later may be without the answer's thoughts.
  std::optional<uint32_t> last_border = {};
};

}  // namespace kvik
