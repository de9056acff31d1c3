#include "catalogue/read_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "catalogue/limits.h"

namespace kvik {
namespace {

// Numbers of "pooling_type".
constexpr uint32_t kMeanPooling = 1, kClsPooling = 2, kLastPooling = 3, kRankPooling = 4;

// The prompt of Qwen3-Reranker with its default instruction (Zhang et al. 2025).
constexpr const char* kQwenPrompt =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    "the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
    "<|im_start|>user\n<Instruct>: Given a web search query, retrieve relevant passages that "
    "answer the query\n<Query>: {query}\n<Document>: {document}<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n";

// Reads the dimensions of the matrices after pooling: from the model's to another and back.
Result<void> read_dense(const KeyReader& keys, ModelConfig& c) {
  TRY_ASSIGN(const uint32_t dim, keys.optional_count("dense_2_feat_out", kMaxDim));
  if (dim == 0) return {};
  TRY_ASSIGN(const uint32_t in, keys.count("dense_2_feat_in", kMaxDim, c.model_dim));
  TRY_ASSIGN(const uint32_t then, keys.count("dense_3_feat_in", kMaxDim));
  TRY_ASSIGN(const uint32_t out, keys.count("dense_3_feat_out", kMaxDim));
  if (c.encoder->has_rms_norms && in == c.model_dim && then == dim && out == c.model_dim) {
    c.encoder->dense_dim = dim;
    return {};
  }
  return fail(ErrorCode::kUnsupported,
              fmt::format("the dense layers after pooling have {} to {} and {} to {} dimensions, "
                          "expected {} to {} and back in an encoder of Gemma 3",
                          in, dim, then, out, c.model_dim, dim));
}

}  // namespace

Result<std::optional<RerankerConfig>> read_reranker(const Metadata& metadata,
                                                    const KeyReader& keys) {
  TRY_ASSIGN(const auto* labels, metadata.get_strings(keys.full(kLabelsKey)));
  if (!labels || !std::ranges::equal(*labels, kYesAndNo)) return std::nullopt;
  TRY_ASSIGN(auto prompt, metadata.get_string(kRerankPromptKey));
  if (!prompt) return RerankerConfig{kQwenPrompt};
  if (prompt->contains("{query}") && prompt->contains("{document}")) {
    return RerankerConfig{std::move(*prompt)};
  }
  return fail(ErrorCode::kCorrupt,
              fmt::format("key '{}' lacks {{query}} or {{document}}, expected a prompt with both",
                          kRerankPromptKey));
}

Result<std::optional<Pooling>> read_pooling(const KeyReader& keys) {
  TRY_ASSIGN(const uint32_t type, keys.optional_count("pooling_type", UINT32_MAX));
  switch (type) {
    case 0:
      return std::nullopt;
    case kMeanPooling:
      return Pooling::kMean;
    case kClsPooling:
      return Pooling::kCls;
    case kLastPooling:
      return Pooling::kLast;
    case kRankPooling:
      return Pooling::kRank;
    default:
      break;
  }
  return fail(ErrorCode::kUnsupported,
              fmt::format("'{}' is {}, expected {} (mean), {} (first token), {} (last token) or {} "
                          "(classifier)",
                          keys.full("pooling_type"), type, kMeanPooling, kClsPooling, kLastPooling,
                          kRankPooling));
}

Result<void> read_encoder(const Metadata& metadata, const KeyReader& keys, ModelConfig& c) {
  EncoderConfig& encoder = *c.encoder;
  TRY_ASSIGN(const bool is_causal, keys.flag("attention.causal", false));
  if (is_causal) {
    return fail(ErrorCode::kUnsupported, fmt::format("'{}' is true, expected false in an encoder",
                                                     keys.full("attention.causal")));
  }
  const KeyReader tokenizer(metadata, "tokenizer.ggml");
  if (encoder.has_token_types) {
    TRY_ASSIGN(encoder.n_token_types, tokenizer.optional_count("token_type_count", kMaxLabels));
  }
  TRY(read_dense(keys, c));
  if (!c.pooling) c.pooling = Pooling::kMean;
  TRY_ASSIGN(const auto* labels, metadata.get_strings(keys.full(kLabelsKey)));
  if (labels && labels->size() > kMaxLabels) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("'{}' lists {} labels, expected at most {}", keys.full(kLabelsKey),
                            labels->size(), kMaxLabels));
  }
  if (c.pooling == Pooling::kRank) {
    encoder.n_labels = labels ? std::max<uint32_t>(1, static_cast<uint32_t>(labels->size())) : 1;
  }
  return {};
}

}  // namespace kvik
