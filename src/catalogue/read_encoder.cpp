#include "catalogue/read_encoder.h"

#include <fmt/format.h>

#include <algorithm>

#include "catalogue/limits.h"

namespace kvik {
namespace {

// Numbers of "pooling_type".
constexpr uint32_t kMeanPooling = 1, kClsPooling = 2, kLastPooling = 3, kRankPooling = 4;

}  // namespace

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
  if (!c.pooling) c.pooling = Pooling::kMean;
  TRY_ASSIGN(const auto* labels, metadata.get_strings(keys.full("classifier.output_labels")));
  if (labels && labels->size() > kMaxLabels) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("'{}' lists {} labels, expected at most {}",
                            keys.full("classifier.output_labels"), labels->size(), kMaxLabels));
  }
  if (c.pooling == Pooling::kRank) {
    encoder.n_labels = labels ? std::max<uint32_t>(1, static_cast<uint32_t>(labels->size())) : 1;
  }
  return {};
}

}  // namespace kvik
