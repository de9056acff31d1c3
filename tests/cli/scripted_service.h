#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "service/service_api.h"
#include "service/template_values.h"

namespace kvik {

// The answer of a model to one prompt.
struct Script {
  std::vector<std::string> chunks;
  std::optional<FinishReason> finish = FinishReason::kStop;  // absent: it never ends
  bool hits_stop_string = false;
  bool exhausts_memory = false;  // instead of an end
  Usage usage = {};
};

inline Usage used(uint32_t prompt_tokens, uint32_t completion_tokens, uint32_t cached_tokens = 0) {
  Usage usage;
  usage.prompt_tokens = prompt_tokens;
  usage.completion_tokens = completion_tokens;
  usage.cached_tokens = cached_tokens;
  return usage;
}

inline Script says(std::string text) { return {.chunks = {std::move(text)}}; }
inline Script begins(std::string text) { return {.chunks = {std::move(text)}, .finish = {}}; }

// A service whose answers the test wrote down; they come within complete(). A token is a byte.
class ScriptedService final : public ServiceApi {
 public:
  std::deque<Script> scripts;
  std::optional<Error> template_error;
  bool opens_reasoning = false;
  ModelCard model{.id = "tiny",
                  .architecture = "llama",
                  .n_ctx_max = 4096,
                  .n_ctx_train = 4096,
                  .n_vocab = 256};

  std::vector<std::string> prompts;                   // as text, of each completion
  mutable std::vector<HistoryTokens> history_tokens;  // as known when a prompt was asked for
  std::vector<CompletionRequest> requests;
  int n_cancelled = 0;

  Result<std::unique_ptr<Completion>> complete(CompletionRequest request,
                                               std::shared_ptr<CompletionSink> sink) override {
    const auto& ids = std::get<std::vector<TokenId>>(request.prompt);
    if (ids.size() > model.n_ctx_max) {
      return fail(ErrorCode::kContextLength, "the prompt has too many tokens", "prompt");
    }
    requests.push_back(request);
    prompts.emplace_back(ids.begin(), ids.end());
    CHECK(!scripts.empty());
    const Script script = std::move(scripts.front());
    scripts.pop_front();
    play(script, AnswerSplitter(request.output.answer_begin.value()), *sink);
    return std::make_unique<Running>(script.finish ? nullptr : &n_cancelled);
  }

  Result<std::unique_ptr<Completion>> embed(EmbeddingRequest,
                                            std::shared_ptr<EmbeddingSink>) override {
    return fail(ErrorCode::kUnsupported, "a script has no hidden states");
  }

  std::vector<TokenId> tokenize(std::string_view text, const TokenizeOptions&) const override {
    std::vector<TokenId> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  Result<std::string> detokenize(std::span<const TokenId> ids) const override {
    return std::string(ids.begin(), ids.end());
  }

  // Returns "role: content|" for each message, then the other inputs of the template.
  Result<std::string> apply_template(const ChatRequest& request) const override {
    if (template_error) return std::unexpected(*template_error);
    std::string text;
    for (const Message& message : request.messages) {
      text += message.role + ": " + text_of(message) + "|";
    }
    for (const auto& [name, value] : request.kwargs) {
      text += name + "=" + jinja::to_text(template_value(value)).bytes() + "|";
    }
    return text;
  }
  Result<ChatPrompt> chat_prompt(const ChatRequest& request) const override {
    TRY_ASSIGN(const std::string text, apply_template(request));
    history_tokens.push_back(request.history_tokens);
    return ChatPrompt{
        .ids = tokenize(text, {}),
        .answer_begin = opens_reasoning ? AnswerBegin::kReasoning : AnswerBegin::kText,
        .text = text};
  }

  const ModelCard& card() const override { return model; }
  EngineSnapshot snapshot() const override { return {}; }
  Result<void> watch(const std::shared_ptr<LiveSink>&) override {
    return fail(ErrorCode::kUnavailable, "this service has no live view");
  }

 private:
  class Running final : public Completion {
   public:
    explicit Running(int* n_cancelled) : n_cancelled_(n_cancelled) {}
    ~Running() override {
      if (n_cancelled_) ++*n_cancelled_;
    }
    uint32_t prompt_tokens() const override { return 0; }

   private:
    int* n_cancelled_;
  };

  static void play(const Script& script, AnswerSplitter splitter, CompletionSink& sink) {
    for (const std::string& text : script.chunks) {
      CompletionChunk chunk;
      chunk.text = text;
      chunk.parts = splitter.push(text);
      chunk.token_ids.assign(text.begin(), text.end());
      sink.on_chunk(chunk);
    }
    if (script.exhausts_memory) return sink.on_no_memory();
    if (!script.finish) return;
    CompletionChunk last;
    last.finish = script.finish;
    last.parts = splitter.push_last("");
    if (script.hits_stop_string) last.stop_string.emplace("The End");
    sink.on_chunk(last);
    sink.on_done(script.usage);
  }
};

}  // namespace kvik
