#include "catalogue/families/sparse/qwen4_exp.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "catalogue/families/sparse/read_indexer.h"
#include "catalogue/key_reader.h"
#include "catalogue/limits.h"
#include "tensor/kv_type.h"

namespace kvik::families {
namespace {

constexpr uint64_t kMaxStreams = 16;
constexpr uint64_t kMaxNgram = 8;
constexpr uint64_t kMaxTaps = 16;
constexpr uint64_t kMaxRows = std::numeric_limits<int32_t>::max();  // as in llama.cpp
constexpr uint64_t kUsualPadding = 128;  // rows of the table are a multiple of this
constexpr std::string_view kNgramLayers = "ple.layers";
constexpr std::string_view kMultipliers = "ple.layer_multipliers";
constexpr std::string_view kRows = "ple.head_vocab_sizes";
constexpr std::string_view kOffsets = "ple.head_offsets";
constexpr std::string_view kRatios = "attention.compress_ratios";
constexpr std::string_view kTop = "attention.indexer.top_k";

// Checks that the heads have rows of the table that another head does not have.
Result<uint64_t> rows_in_use(const KeyReader& keys, const NgramConfig& g) {
  uint64_t end = 0;
  for (uint32_t head = 0; head < g.n_heads(); ++head) {
    if (g.offsets[head] < end) {
      return fail(ErrorCode::kCorrupt, fmt::format("'{}' holds {} after {} rows, expected at least "
                                                   "{}",
                                                   keys.full(kOffsets), g.offsets[head], end, end));
    }
    end = uint64_t{g.offsets[head]} + g.rows[head];
  }
  if (end <= kMaxRows) return end;
  return fail(ErrorCode::kCorrupt, fmt::format("'{}' makes a table of {} rows, expected at most {}",
                                               keys.full(kRows), end, kMaxRows));
}

Result<NgramConfig> read_ngrams(const KeyReader& keys, const ModelConfig& c) {
  NgramConfig g;
  TRY_ASSIGN(const auto layers, keys.integers(kNgramLayers, 1));
  g.layer = static_cast<uint32_t>(std::min<uint64_t>(layers.front(), c.n_layers));
  if (g.layer >= c.n_layers || !std::holds_alternative<DeltaConfig>(c.layers[g.layer].mixer)) {
    return fail(ErrorCode::kUnsupported, fmt::format("'{}' has layer {}, counted from 0, "
                                                     "expected a recurrent layer",
                                                     keys.full(kNgramLayers), layers.front()));
  }
  TRY_ASSIGN(g.n_tokens, keys.count("ple.ngram_size", kMaxNgram));
  TRY_ASSIGN(g.heads_per_size, keys.count("ple.heads_per_ngram", kMaxHeads));
  TRY_ASSIGN(g.kernel_size, keys.count("ple.conv_kernel", kMaxTaps));
  TRY_ASSIGN(g.row_dim, keys.count("embedding_length_per_layer_input", kMaxHeadDim));
  TRY_ASSIGN(g.end_token, keys.optional_count("ple.eos_token_id", c.n_vocab - 1));
  for (const auto& [key, n] :
       {std::pair("ple.ngram_size", g.n_tokens), std::pair("ple.conv_kernel", g.kernel_size)}) {
    if (n >= 2) continue;
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' is {}, expected at least 2", keys.full(key), n));
  }
  if (uint64_t{g.n_heads()} * g.row_dim > kMaxDim) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("'{}' is {} for {} heads, expected at most {} columns together",
                            keys.full("embedding_length_per_layer_input"), g.row_dim, g.n_heads(),
                            kMaxDim));
  }
  TRY_ASSIGN(g.multipliers, keys.integers(kMultipliers, g.n_tokens));
  TRY_ASSIGN(const auto rows, keys.integers(kRows, g.n_heads()));
  for (const uint64_t n : rows) {
    if (n < 1 || n > kMaxRows) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("'{}' holds {}, expected 1 to {}", keys.full(kRows), n, kMaxRows));
    }
    g.rows.push_back(static_cast<uint32_t>(n));
  }
  TRY_ASSIGN(const auto offsets, keys.integers(kOffsets, g.n_heads()));
  for (const uint64_t offset : offsets) {
    g.offsets.push_back(static_cast<uint32_t>(std::min(offset, kMaxRows)));
  }
  TRY_ASSIGN(const uint64_t n_used, rows_in_use(keys, g));
  const uint64_t n_padded = (n_used + kUsualPadding - 1) / kUsualPadding * kUsualPadding;
  TRY_ASSIGN(g.n_rows, keys.count("ple.row_count", kMaxRows + kUsualPadding, n_padded));
  if (g.n_rows >= n_used) return g;
  return fail(ErrorCode::kCorrupt, fmt::format("'{}' is {}, expected at least {}",
                                               keys.full("ple.row_count"), g.n_rows, n_used));
}

Result<void> read_indexers(const KeyReader& keys, ModelConfig& c) {
  TRY_ASSIGN(IndexerConfig indexer, read_index_heads(keys, {.pairing = RopePairing::kHalves}));
  TRY_ASSIGN(indexer.n_top, keys.count(kTop, kMaxContext));
  std::vector<uint64_t> ratios;
  if (keys.is_list(kRatios)) {
    TRY_ASSIGN(ratios, keys.integers(kRatios, c.n_listed_layers()));
  } else {
    TRY_ASSIGN(const uint32_t ratio, keys.count(kRatios, kPageTokens));
    ratios.assign(c.n_layers, ratio);
  }
  TRY(check_index_rope(keys, indexer, c.ropes.front().n_dims));
  for (uint32_t i = 0; i < c.n_layers; ++i) {
    auto* a = std::get_if<AttentionConfig>(&c.layers[i].mixer);
    if (!a || ratios[i] == 0) continue;  // 0: the layer attends to all tokens
    const bool is_first = !indexer.has_block_keys();
    if (!is_first && ratios[i] != indexer.key_tokens) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("'{}' is {} in layer {}, expected {} as in others",
                              keys.full(kRatios), ratios[i], i, indexer.key_tokens));
    }
    if (ratios[i] < 2 || ratios[i] > kPageTokens || kPageTokens % ratios[i] != 0 ||
        indexer.n_top % ratios[i] != 0) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("'{}' is {} in layer {}, expected a divisor of {} and of the {} "
                              "selected tokens",
                              keys.full(kRatios), ratios[i], i, kPageTokens, indexer.n_top));
    }
    indexer.key_tokens = static_cast<uint32_t>(ratios[i]);
    a->indexer = indexer;
  }
  return {};
}

}  // namespace

Result<void> finish_qwen4_exp(const KeyReader& keys, ModelConfig& config) {
  if (!config.has_state()) {  // which holds the inputs of the keys of blocks
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' makes all {} layers attend, expected a recurrent one",
                            keys.full("full_attention_interval"), config.n_layers));
  }
  HyperConnectionsConfig hyper;
  TRY_ASSIGN(hyper.n, keys.count("hyper_connection.count", kMaxStreams));
  TRY_ASSIGN(hyper.rank, keys.count("hyper_connection.low_rank", kMaxDim));
  if (hyper.n < 2 || uint64_t{hyper.n} * config.model_dim > kMaxDim) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' is {}, expected 2 or more, and at most {} dimensions together",
                            keys.full("hyper_connection.count"), hyper.n, kMaxDim));
  }
  config.hyper = hyper;
  TRY_ASSIGN(const std::string gate, keys.word("ssm.output_gate", "sigmoid"));
  if (gate != "sigmoid" && gate != "silu") {
    return fail(ErrorCode::kUnsupported, fmt::format("'{}' is {}, expected sigmoid or silu",
                                                     keys.full("ssm.output_gate"), gate));
  }
  for (LayerConfig& layer : config.layers) {
    if (auto* delta = std::get_if<DeltaConfig>(&layer.mixer)) {
      delta->has_sigmoid_gate = gate == "sigmoid";
    }
  }
  if (keys.has(kNgramLayers)) {
    TRY_ASSIGN(config.ngrams, read_ngrams(keys, config));
  }
  return read_indexers(keys, config);
}

Result<LayerConfig> qwen4_exp_mtp_layer(const KeyReader&, const ModelConfig& config) {
  LayerConfig layer{.mixer = config.attention(), .feed_forward = config.layers.back().feed_forward};
  std::get<AttentionConfig>(layer.mixer).indexer = {};
  return layer;
}

}  // namespace kvik::families
