#include "service/encode/encoder_service.h"

#include <fmt/format.h>

#include <utility>

#include "service/check_request.h"
#include "service/encode/prepare_embedding.h"

namespace kvik {
namespace {

// A request; destroying it cancels the request.
class Encoding final : public Completion {
 public:
  Encoding(EncoderThread& encoder, RequestId id, uint32_t n_tokens)
      : encoder_(encoder), id_(id), n_tokens_(n_tokens) {}
  ~Encoding() override { encoder_.cancel(id_); }
  uint32_t prompt_tokens() const override { return n_tokens_; }

 private:
  EncoderThread& encoder_;
  const RequestId id_;
  const uint32_t n_tokens_;
};

}  // namespace

std::unexpected<Error> EncoderService::no_answers() const {
  const std::string_view route = card_.n_labels > 0 ? "/v1/rerank" : "/v1/embeddings";
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("the model '{}' is an encoder ({}) and generates no text; use {}",
                          card_.id, card_.architecture, route),
              "model");
}

Result<std::unique_ptr<Completion>> EncoderService::embed(EmbeddingRequest request,
                                                          std::shared_ptr<EmbeddingSink> sink) {
  TRY(check_model(request.model, card_));
  TRY(prepare_embedding(request, tokenizer_, card_));
  const auto n_tokens = static_cast<uint32_t>(request.engine.prompt.size());
  auto stream = std::make_shared<PoolingStream>(PoolingStream::Options{.pooling = *request.pooling,
                                                                       .n_dims = request.n_dims,
                                                                       .norm = request.norm,
                                                                       .dense = dense_},
                                                std::move(sink));
  TRY_ASSIGN(const RequestId id, encoder_.submit(std::move(request.engine), std::move(stream)));
  return std::make_unique<Encoding>(encoder_, id, n_tokens);
}

Result<std::vector<PairPrompt>> EncoderService::pair_prompts(
    std::string_view first, std::span<const std::string_view> seconds) const {
  if (card_.n_labels == 0) return ServiceApi::pair_prompts(first, seconds);
  std::vector<TokenId> begin = tokenizer_.tokenize(first, {.add_bos = true});
  const auto end = tokenizer_.eos();
  if (pair_ == PairForm::kTwoEnds && end) begin.push_back(*end);
  std::vector<PairPrompt> pairs;
  for (const std::string_view second : seconds) {
    PairPrompt& pair = pairs.emplace_back();
    pair.ids = begin;
    pair.second_segment = static_cast<uint32_t>(begin.size());
    const auto ids = tokenizer_.tokenize(second, {.add_bos = false});
    pair.ids.insert(pair.ids.end(), ids.begin(), ids.end());
    if (end) pair.ids.push_back(*end);
  }
  return pairs;
}

Result<std::string> EncoderService::detokenize(std::span<const TokenId> ids) const {
  TRY(check_tokens(ids, tokenizer_.n_vocab()));
  return tokenizer_.detokenize(ids, Tokenizer::Special::kShow);
}

Result<void> EncoderService::watch(const std::shared_ptr<LiveSink>&) {
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("the model '{}' is an encoder, which has no cache to watch", card_.id));
}

}  // namespace kvik
