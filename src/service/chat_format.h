#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "service/adapt_chat.h"
#include "service/chat_request.h"
#include "service/history/known_answers.h"
#include "template/chat_template.h"
#include "text/tokenizer.h"

namespace kvik {

struct ChatFormatOptions {
  std::string chat_template = {};  // replaces the model's own template; empty: the model's own
  // a name in tool_formats(), or "none"; empty: detected from the template
  std::string tool_format = {};
  // maximum number of reasoning tokens of requests that choose neither it nor an effort
  std::optional<uint64_t> reasoning_budget = {};
  std::string reasoning_budget_message = {};  // text that ends reasoning at the limit
  // schema language of requests that do not choose one
  JsonStyle::Language schema_language = JsonStyle::Language::kCanonical;
  // memory for the exact tokens of answers (AnswerMemory); 0: none are remembered
  uint64_t answer_memory_bytes = uint64_t{16} << 20;
  std::string answer_folder = {};  // folder of the AnswerFile; empty: there is none
};

// Renders conversations as prompts with the model's chat template. A model without one gets a plain
// default template: "USER:" or "ASSISTANT:" on its own line, then the message, then an empty line.
// Immutable; any thread.
class ChatFormat {
 public:
  // Borrows the tokenizer, and the memory of earlier answers (null: none). If the template does not
  // parse, rendering returns kUnsupported.
  explicit ChatFormat(const Tokenizer& tokenizer, const ChatFormatOptions& options = {},
                      AnswerMemory* answers = nullptr);

  // Returns the rendered conversation. Errors: kInvalidArgument, mostly with `param` "messages";
  // this includes exceptions that the template itself raises. kUnsupported if the template did not
  // parse.
  Result<jinja::Text> render(const ChatRequest& request) const;

  // Returns the prompt as tokens. Special tokens are recognized only in text that the template
  // wrote. Answers that the request's owner sends back get the tokens with which they were
  // generated, and the reasoning that the client left out, if the template renders it.
  // last_message_end is computed only if requested, because it requires rendering a second time.
  enum class MessageEnds : uint8_t { kNone, kLast };
  Result<ChatPrompt> prompt(const ChatRequest& request,
                            MessageEnds message_ends = MessageEnds::kNone) const;

 private:
  // The template's variables for one conversation.
  struct Given {
    jinja::Value messages, tools;
  };
  Given given(const ChatRequest& request) const;

  // Renders a conversation that has already been through adapted().
  Result<jinja::Text> render_adapted(const ChatRequest& request) const;
  Result<jinja::Text> render(const ChatRequest& request, const Given& given) const;
  AnswerSyntax syntax_of(const ChatRequest& request) const;
  std::vector<TokenId> special_ids(std::string_view mark) const;
  std::optional<uint64_t> reasoning_budget(const ReasoningOptions& requested) const;
  // The generation prompt, up to the mark that opens the reasoning, and the rest. If it is empty:
  // the marks that end what is before an answer.
  struct GenerationPrompt {
    std::string header, opening;
    std::vector<std::string> befores = {};

    bool ends(std::string_view prompt) const;
  };
  std::optional<GenerationPrompt> generation_prompt(const ChatRequest& request) const;
  // A rendered conversation, and the answers in it whose tokens are known.
  struct Rendered {
    ChatRequest request;  // adapted to the template
    jinja::Text text;
    KnownConversation conversation;
    std::vector<KnownRange> known;  // ascending
    uint32_t n_restored = 0;        // as in ChatPrompt
    std::optional<AnswerOrigin> origin;
  };
  Result<Rendered> render_known(const ChatRequest& request, const AnswerSyntax& syntax) const;
  void keep_tokenized_alike(Rendered& rendered, const AnswerSyntax& syntax) const;
  std::string last_mark(const ChatRequest& request) const;
  std::vector<std::string> answer_ends(const AnswerSyntax& syntax) const;
  std::vector<Pin> pins_of(const Rendered& rendered) const;
  std::optional<uint32_t> last_message_end(const ChatRequest& request, const jinja::Text& text,
                                           size_t n_tokens) const;
  std::vector<TokenId> tokenize(const jinja::Text& text) const;
  std::vector<TokenId> tokenize_known(const Rendered& rendered, size_t n_bytes) const;
  std::optional<std::vector<TokenId>> tokenize_after(const HistoryTokens& history_tokens,
                                                     const jinja::Text& text) const;

  const Tokenizer& tokenizer_;
  AnswerMemory* const answers_;
  const std::string bos_, eos_;
  const std::string source_;
  const std::optional<uint64_t> reasoning_budget_;
  const Result<ChatTemplate> template_;
  TemplateInfo needs_;
  bool parses_calls_ = true;
};

}  // namespace kvik
