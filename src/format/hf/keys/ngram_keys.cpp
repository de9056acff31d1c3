#include "format/hf/keys/ngram_keys.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "catalogue/limits.h"
#include "format/ngram_numbers.h"

namespace kvik::hf {
namespace {

constexpr uint64_t kMaxRows = std::numeric_limits<int32_t>::max();
constexpr uint64_t kMaxNgram = 8;
constexpr uint64_t kMaxNgramHeads = 256;

// Returns the token that ends a text; of several, the first.
Result<uint64_t> end_token(const JsonObject& config, uint64_t n_vocab) {
  TRY_ASSIGN(const auto ids, config.numbers("eos_token_id"));
  if (!ids.empty() && ids.front() < n_vocab) return ids.front();
  return config.unexpected_value("eos_token_id", fmt::format("a token below {}", n_vocab));
}

}  // namespace

Result<void> read_ngrams(const JsonObject& config, GgufKeys& keys) {
  keys.text("ssm.output_gate", "silu");
  TRY_ASSIGN(const auto layers, config.numbers("ple_layer_ids"));
  if (layers.empty()) return {};
  if (layers.size() > 1 || layers.front() == 0) {
    return config.unexpected_value("ple_layer_ids", "one layer, counted from 1",
                                   ErrorCode::kUnsupported);
  }
  TRY_ASSIGN(const uint32_t n_vocab, config.count("vocab_size", kMaxVocabulary));
  TRY_ASSIGN(const uint32_t n_tokens, config.count("ngram_size", kMaxNgram));
  TRY_ASSIGN(const uint32_t heads_per_size, config.count("heads_per_ngram", kMaxNgramHeads));
  TRY_ASSIGN(const uint32_t kernel_size, config.count("ple_conv_kernel_size", kMaxDim));
  const char* width = config.find("ple_embed_dim") ? "ple_embed_dim" : "hidden_size";
  TRY_ASSIGN(const uint32_t dim, config.count(width, kMaxDim));
  TRY_ASSIGN(const uint32_t base, config.count("ngram_vocab_size_base", kMaxRows));
  TRY_ASSIGN(const uint32_t multiple, config.count("make_ngram_vocab_size_divisible_by", kMaxRows));
  TRY_ASSIGN(const auto seed, config.number("seed"));
  if (n_tokens < 2) {
    return config.unexpected_value("ngram_size", fmt::format("2 to {}", kMaxNgram));
  }
  const uint64_t n_heads = (n_tokens - 1) * heads_per_size;
  if (n_heads > kMaxNgramHeads) {
    return config.unexpected_value("heads_per_ngram", fmt::format("at most {} heads for {} sizes",
                                                                  kMaxNgramHeads, n_tokens - 1));
  }
  if (dim % n_heads != 0 || dim / n_heads > kMaxHeadDim) {
    return config.unexpected_value(
        width, fmt::format("a multiple of the {} heads, up to {} for each", n_heads, kMaxHeadDim));
  }
  if (n_heads * uint64_t{base} > kMaxRows) {
    return config.unexpected_value(
        "ngram_vocab_size_base",
        fmt::format("at most {} for each of {} heads", kMaxRows / n_heads, n_heads));
  }
  const std::vector<uint64_t> rows = primes_from(base, n_heads);
  std::vector<uint64_t> offsets = ngram_offsets(rows);
  const uint64_t n_rows = offsets.back() + rows.back();
  TRY_ASSIGN(const uint64_t end, end_token(config, n_vocab));
  keys.numbers("ple.layers", {layers.front() - 1});
  keys.number("ple.ngram_size", n_tokens);
  keys.number("ple.heads_per_ngram", heads_per_size);
  keys.number("ple.conv_kernel", kernel_size);
  keys.number("ple.eos_token_id", end);
  keys.number("embedding_length_per_layer_input", dim / n_heads);
  keys.numbers("ple.layer_multipliers", ngram_multipliers(seed.value_or(0), n_vocab, n_tokens));
  keys.numbers("ple.head_offsets", std::move(offsets));
  keys.numbers("ple.head_vocab_sizes", rows);
  keys.number("ple.row_count", (n_rows + multiple - 1) / multiple * multiple);
  return {};
}

}  // namespace kvik::hf
