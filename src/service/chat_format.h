#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "service/adapt_chat.h"
#include "service/chat_request.h"
#include "template/chat_template.h"
#include "text/tokenizer.h"

namespace kvik {

struct ChatFormatOptions {
  std::string chat_template = {};  // in the place of the model's own; empty: that one
  std::string tool_format = {};    // of tool_formats(), or "none"; empty: what the template writes
  // Language of the schemas of requests that choose none.
  JsonStyle::Language schema_language = JsonStyle::Language::kCanonical;
};

// Conversations → prompts, by the model's own template; without one, by a plain one of ours:
// "USER:" or "ASSISTANT:" on a line of its own, the words below it, an empty line. Immutable: any
// thread.
class ChatFormat {
 public:
  // Where the model's template does not parse, each rendering says so: kUnsupported.
  explicit ChatFormat(const Tokenizer& tokenizer, const ChatFormatOptions& options = {});

  // Errors: kInvalidArgument with `param` "messages", the template's own words among them.
  Result<jinja::Text> render(const ChatRequest& request) const;

  // Special tokens count where the template wrote them. The border is told where it is asked for:
  // it costs rendering once more.
  enum class Borders : uint8_t { kNone, kLast };
  Result<ChatPrompt> prompt(const ChatRequest& request, Borders borders = Borders::kNone) const;

 private:
  // A conversation as its template sees it.
  struct Given {
    jinja::Value messages, tools;
  };
  Given given(const ChatRequest& request) const;

  // Of a conversation that was adapted.
  Result<jinja::Text> render_adapted(const ChatRequest& request) const;
  Result<jinja::Text> render(const ChatRequest& request, const Given& given) const;
  AnswerSyntax syntax_of(const ChatRequest& request) const;
  std::vector<TokenId> special_ids(std::string_view mark) const;
  std::vector<Pin> pins_of(const ChatRequest& request, const jinja::Text& text) const;
  std::optional<uint32_t> last_border(const ChatRequest& request, const jinja::Text& text,
                                      size_t n_tokens) const;
  std::vector<TokenId> tokenize(const jinja::Text& text) const;
  std::optional<std::vector<TokenId>> tokenize_behind(const SpokenTokens& spoken,
                                                      const jinja::Text& text) const;

  const Tokenizer& tokenizer_;
  const std::string bos_, eos_;
  const std::string source_;
  const Result<ChatTemplate> template_;
  TemplateNeeds needs_;
  bool parses_calls_ = true;
};

}  // namespace kvik
