#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine_thread.h"
#include "service/chat_format.h"
#include "service/history/answer_file.h"
#include "service/history/answer_memory.h"
#include "service/sampling/sampling_texts.h"
#include "service/service_api.h"
#include "service/structured_output/grammar_compiler.h"
#include "text/tokenizer.h"

namespace kvik {

// The adapters that a service offers.
struct ServiceAdapters {
  AdapterRegistry* book = nullptr;            // adapters that clients can choose; null: none
  std::shared_ptr<const Adapter> by_default;  // used if a request names no model; null: none
};

// The scores of pairs of texts; empty if the model is no reranker.
struct ServiceReranker {
  std::string prompt;                         // RerankerConfig::prompt
  std::span<const float> score_weights = {};  // Model::score_weights(), borrowed
};

// Implements ServiceApi on one tokenizer and one engine thread.
class Service final : public ServiceApi {
 public:
  // Borrows the tokenizer, the engine, the adapter book and the weights of scores, which must
  // outlive the service.
  Service(const Tokenizer& tokenizer, EngineThread& engine, ModelCard card,
          const ChatFormatOptions& chat = {}, ServiceAdapters adapters = {},
          ServiceReranker reranker = {});

  Result<std::unique_ptr<Completion>> complete(CompletionRequest request,
                                               std::shared_ptr<CompletionSink> sink) override;

  bool must_compile(const CompletionRequest& request) const override {
    return request.form && !grammar_compiler_.knows(*request.form, owner_of(request));
  }
  Result<bool> try_compile(const CompletionRequest& request) override {
    if (!request.form) return true;
    return grammar_compiler_.try_compile(*request.form, owner_of(request));
  }
  GrammarMemory grammar_memory() const override { return grammar_compiler_.memory(); }

  Result<std::unique_ptr<Completion>> embed(EmbeddingRequest request,
                                            std::shared_ptr<EmbeddingSink> sink) override;
  Result<std::vector<PairPrompt>> pair_prompts(
      std::string_view first, std::span<const std::string_view> seconds) const override;

  std::vector<TokenId> tokenize(std::string_view text,
                                const TokenizeOptions& options) const override;
  Result<std::string> detokenize(std::span<const TokenId> ids) const override;

  Result<std::string> apply_template(const ChatRequest& request) const override;
  Result<ChatPrompt> chat_prompt(const ChatRequest& request) const override;
  // Returns the tokens of the prompt of a completion. Special tokens are recognized. If the text
  // already begins with BOS, no second one is added.
  std::vector<TokenId> prompt_tokens(std::string_view text) const;

  const ModelCard& card() const override { return card_; }
  AdapterRegistry* adapters() const override { return adapters_.book; }
  EngineSnapshot snapshot() const override { return engine_.snapshot(); }
  Result<void> watch(const std::shared_ptr<LiveSink>& sink) override { return engine_.watch(sink); }

 private:
  static GrammarCompiler::Owner owner_of(const CompletionRequest& request) {
    return {.tenant = request.engine.tenant, .salt = request.engine.cache_salt};
  }
  // Sets the request's adapter from the model name, if that name means one.
  Result<void> choose_adapter(const std::optional<std::string>& model, Request& to_run) const;
  std::vector<TokenId> take_prompt(CompletionRequest& request) const;
  Result<void> prepare(CompletionRequest& request);
  void limit_reasoning(CompletionRequest& request) const;

  const Tokenizer& tokenizer_;
  EngineThread& engine_;
  ModelCard card_;
  // Shared with the streams of answers, which the engine may end after this object.
  const std::shared_ptr<AnswerMemory> answers_;
  std::optional<AnswerFile> answer_file_;
  ChatFormat chat_;
  const std::string reasoning_budget_message_;
  GrammarCompiler grammar_compiler_;
  const ServiceAdapters adapters_;
  const ServiceReranker reranker_;
  DryBreakerCache dry_breakers_;
};

}  // namespace kvik
