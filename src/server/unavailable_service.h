#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "service/service_api.h"

namespace kvik {

// A service without a model: every request fails with kUnavailable and the reason. The server
// derives its bounds on requests from the context.
class UnavailableService final : public ServiceApi {
 public:
  UnavailableService(std::string reason, uint32_t n_ctx) : reason_(std::move(reason)) {
    card_.n_ctx_max = n_ctx;
  }

  Result<std::unique_ptr<Completion>> complete(CompletionRequest,
                                               std::shared_ptr<CompletionSink>) override {
    return unavailable();
  }
  Result<std::unique_ptr<Completion>> embed(EmbeddingRequest,
                                            std::shared_ptr<EmbeddingSink>) override {
    return unavailable();
  }
  std::vector<TokenId> tokenize(std::string_view, const TokenizeOptions&) const override {
    return {};
  }
  Result<std::string> detokenize(std::span<const TokenId>) const override { return unavailable(); }
  Result<std::string> apply_template(const ChatRequest&) const override { return unavailable(); }
  Result<ChatPrompt> chat_prompt(const ChatRequest&) const override { return unavailable(); }
  const ModelCard& card() const override { return card_; }
  EngineSnapshot snapshot() const override { return {}; }
  Result<void> watch(const std::shared_ptr<LiveSink>&) override { return unavailable(); }

 private:
  std::unexpected<Error> unavailable() const { return fail(ErrorCode::kUnavailable, reason_); }

  const std::string reason_;
  ModelCard card_;
};

}  // namespace kvik
