#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/request/request.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace kvik {

// The beginning of a conversation in the very tokens that a model was fed and said.
struct SpokenTokens {
  std::string text;
  std::vector<TokenId> ids;
};

// A place in a conversation whose prefix is worth keeping for longer: behind n_bytes of a message's
// words, or without a message behind the tools.
struct ChatMark {
  std::optional<size_t> message;  // its index
  size_t n_bytes = 0;
  Duration ttl{};
};

// What a chat template is given. Strings in it are a user's words: no special token in them counts.
struct ChatRequest {
  jinja::Value messages;  // a list of dicts
  jinja::Value tools;     // the same, or none
  // Further names that the template may ask for. They never replace those that Kvik sets
  // (THREATS 22).
  std::vector<std::pair<std::string, jinja::Value>> kwargs;
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the prompt ends inside the last message
  // Where the prompt begins with this text, and the template goes on with a special token, it keeps
  // these ids. A model may say a word in other tokens than a tokenizer would cut it into: all K and
  // V behind it would be computed again.
  SpokenTokens spoken = {};
  std::vector<ChatMark> marks = {};
};

struct ChatPrompt {
  std::vector<TokenId> ids;
  bool ends_in_thought = false;  // the template wrote "<think>" for the answer to go on from
  std::string text = {};
  std::vector<Pin> pins = {};  // of the marks that the prompt shows
};

// Conversations → prompts, by the model's own template; without one, by a plain one of ours:
// "USER:" or "ASSISTANT:" on a line of its own, the words below it, an empty line. Immutable: any
// thread.
class ChatFormat {
 public:
  // Where the model's template does not parse, each rendering says so: kUnsupported.
  explicit ChatFormat(const Tokenizer& tokenizer);

  // Errors: kInvalidArgument with `param` "messages", the template's own words among them.
  Result<jinja::Text> render(const ChatRequest& request) const;

  // Special tokens count where the template wrote them.
  Result<ChatPrompt> prompt(const ChatRequest& request) const;

 private:
  std::vector<Pin> pins_of(const ChatRequest& request, const jinja::Text& text) const;
  std::vector<TokenId> tokenize(const jinja::Text& text) const;
  std::vector<TokenId> tokenize_behind(const SpokenTokens& spoken, const jinja::Text& text) const;

  const Tokenizer& tokenizer_;
  const std::string bos_, eos_;
  const Result<ChatTemplate> template_;
};

}  // namespace kvik
