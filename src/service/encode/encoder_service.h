#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engine/encode/encoder_thread.h"
#include "service/pooling_stream.h"
#include "service/service_api.h"
#include "text/tokenizer.h"

namespace kvik {

// Implements ServiceApi on a tokenizer and an encoder. Requests for answers fail with one sentence.
class EncoderService final : public ServiceApi {
 public:
  // Form of a pair's tokens: [first, end, second, end], or with two end tokens between the texts
  // (RoBERTa).
  enum class PairForm { kOneEnd, kTwoEnds };

  // Borrows the tokenizer, the encoder and the matrices, which must outlive the service.
  EncoderService(const Tokenizer& tokenizer, EncoderThread& encoder, ModelCard card, PairForm pair,
                 PoolingStream::Dense dense)
      : tokenizer_(tokenizer),
        encoder_(encoder),
        card_(std::move(card)),
        pair_(pair),
        dense_(dense) {}

  Result<std::unique_ptr<Completion>> complete(CompletionRequest,
                                               std::shared_ptr<CompletionSink>) override {
    return no_answers();
  }
  Result<std::unique_ptr<Completion>> embed(EmbeddingRequest request,
                                            std::shared_ptr<EmbeddingSink> sink) override;
  Result<std::vector<PairPrompt>> pair_prompts(
      std::string_view first, std::span<const std::string_view> seconds) const override;

  std::vector<TokenId> tokenize(std::string_view text,
                                const TokenizeOptions& options) const override {
    return tokenizer_.tokenize(text, options);
  }
  Result<std::string> detokenize(std::span<const TokenId> ids) const override;
  Result<std::string> apply_template(const ChatRequest&) const override { return no_answers(); }
  Result<ChatPrompt> chat_prompt(const ChatRequest&) const override { return no_answers(); }

  const ModelCard& card() const override { return card_; }
  EngineSnapshot snapshot() const override { return encoder_.snapshot(); }
  Result<void> watch(const std::shared_ptr<LiveSink>& sink) override;

 private:
  std::unexpected<Error> no_answers() const;

  const Tokenizer& tokenizer_;
  EncoderThread& encoder_;
  const ModelCard card_;
  const PairForm pair_;
  const PoolingStream::Dense dense_;
};

}  // namespace kvik
