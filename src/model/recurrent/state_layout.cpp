#include "model/recurrent/state_layout.h"

#include <variant>

namespace kvik {
namespace {

// floats per cache line; each layer's state begins at a cache line
constexpr uint64_t kLineFloats = 16;
uint64_t whole_lines(uint64_t n) { return (n + kLineFloats - 1) / kLineFloats * kLineFloats; }

// Returns the earlier inputs of the key of a block, or the sums of its weighted mean (EntryShape).
uint64_t index_floats(const IndexerConfig& indexer) {
  if (!indexer.is_own()) return 0;
  const uint64_t n_rows = indexer.has_weighted_means ? 3 : indexer.key_tokens - 1;
  return n_rows * indexer.head_dim;
}

// Returns the floats of the newest entry, and of that of an indexer.
uint64_t entry_floats(const AttentionConfig& a) {
  const EntriesConfig& e = a.joint.entries;
  return e.state_floats(a.head_dim) + (e.selects() ? e.state_floats(e.index_dim) : 0);
}

}  // namespace

StateLayout state_layout(const ModelConfig& config) {
  StateLayout layout;
  for (size_t i = 0; i < config.layers.size(); ++i) {
    layout.offsets.push_back(layout.n_floats);
    const bool is_mtp_head = i >= config.n_layers;
    uint64_t n = is_mtp_head && config.has_state() ? config.mtp_hidden_dim() : 0;
    if (!is_mtp_head) {
      if (const auto* a = config.layers[i].if_attention()) {
        n = index_floats(a->indexer) + entry_floats(*a);
      }
      config.layers[i].visit_state([&](const auto& own) { n = own.state_floats(); });
    }
    layout.n_floats += whole_lines(n);
  }
  layout.ngrams = layout.n_floats;
  if (config.ngrams) {
    layout.n_floats +=
        whole_lines(uint64_t{config.ngrams->n_taps() - 1} * config.hyper->n * config.model_dim);
  }
  return layout;
}

}  // namespace kvik
