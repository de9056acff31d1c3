#include "model/ngrams/ngram_block.h"

#include <algorithm>

#include "base/check.h"

namespace kvik {

NgramBlock::Buffers NgramBlock::Buffers::take(const ModelConfig& config, uint32_t n_rows_max,
                                              RowBuffers& buffers) {
  const uint32_t n_streams = config.hyper->n;
  const uint32_t n_cols = n_streams * config.model_dim;
  buffers.count(uint64_t{n_rows_max} * config.ngrams->n_heads() * sizeof(uint32_t));  // places_
  return {.embedding = buffers.take(n_rows_max, config.ngrams->dim()),
          .keys = buffers.take(n_rows_max, n_cols),
          .rows = buffers.take(n_rows_max, n_cols),
          .value = buffers.take(n_rows_max, config.model_dim),
          .gates = buffers.take(n_rows_max, n_streams),
          .drafts = buffers.take(std::min(RecurrentBlock::kMaxDraftRows, n_rows_max), n_cols)};
}

NgramBlock::NgramBlock(const Model& model, Backend& backend, const Buffers& buffers,
                       uint64_t state_offset)
    : model_(model),
      backend_(backend),
      config_(*model.config().ngrams),
      buffers_(buffers),
      conv_(backend,
            {.conv_weights = model.ngrams().conv.floats(),
             .kernel_size = config_.n_taps(),
             .is_activated = true},
            state_offset, buffers.drafts) {
  places_.reserve(size_t{buffers.embedding.n_rows} * config_.n_heads());
}

void NgramBlock::add_sequence(std::span<const TokenId> earlier, std::span<const TokenId> tokens) {
  const auto at = [&](size_t i) {
    return i < earlier.size() ? earlier[i] : tokens[i - earlier.size()];
  };
  for (size_t i = earlier.size(); i < earlier.size() + tokens.size(); ++i) {
    uint64_t hash = at(i) * config_.multipliers[0];
    bool is_cut = false;  // at the beginning or the end of a text
    uint32_t head = 0;
    for (uint32_t n = 1; n < config_.n_tokens; ++n) {
      is_cut = is_cut || n > i || at(i - n) == config_.end_token;
      hash ^= (is_cut ? config_.end_token : at(i - n)) * config_.multipliers[n];
      for (uint32_t j = 0; j < config_.heads_per_size; ++j, ++head) {
        places_.push_back(static_cast<uint32_t>(hash % config_.rows[head]) + config_.offsets[head]);
      }
    }
  }
}

void NgramBlock::add(HyperConnections& streams, RecurrentBlock& states, uint32_t n_rows) {
  const NgramWeights& w = model_.ngrams();
  const uint32_t dim = model_.config().model_dim;
  const uint32_t n_heads = config_.n_heads();
  CHECK(places_.size() == size_t{n_rows} * n_heads);
  const Rows all = streams.streams(n_rows);
  const Rows embedding = buffers_.embedding.slice(0, n_rows);
  const Rows keys = buffers_.keys.slice(0, n_rows);
  const Rows rows = buffers_.rows.slice(0, n_rows);
  const Rows value = buffers_.value.slice(0, n_rows);
  const Rows gates = buffers_.gates.slice(0, n_rows);
  model_.ngram_table()->look_up(
      backend_, places_, {embedding.data, n_rows * n_heads, config_.row_dim, config_.row_dim});
  backend_.matmul(embedding, *w.key, keys);
  streams.norm(keys, w.key_norm, keys);
  streams.norm(all, w.query_norm, rows);
  backend_.head_gates(keys, rows, gates);
  backend_.matmul(embedding, *w.value, value);
  const Rows gated = keys;
  backend_.clear(gated);
  for (uint32_t j = 0; j < gates.n_cols; ++j) {
    backend_.add_weighted_heads(gated.columns(j * dim, dim), value, gates.columns(j, 1));
  }
  streams.norm(gated, w.conv_norm, rows);
  backend_.add(all, gated);
  const Rows mixed = keys;
  conv_.run(states, rows, mixed);
  backend_.add(all, mixed);
}

}  // namespace kvik
