#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "model/latent/query_scaling.h"
#include "model/layer_groups.h"
#include "model/model.h"
#include "model/recurrent/recurrent_block.h"
#include "model/recurrent/state_conv.h"
#include "model/recurrent/weighted_means.h"
#include "model/rope.h"
#include "model/row_buffers.h"

namespace kvik {

// The indexers of layers that attend to selected tokens only (IndexerConfig; DeepSeek-V3.2, 2025).
// Per layer with an indexer of its own, write() stores the index keys of all rows of the step in
// the pages, then select() reads them from there. A layer that shares a selection uses that of the
// last such layer. While a row could attend to at most n_budget() tokens, nothing is selected, and
// no queries are computed. One thread.
//
// Indexers of blocks (IndexerConfig::key_tokens; Qwen4-Exp 2026) have a key for each block: the
// mean of its tokens' keys, normed, and rotated to the block's first position. All heads have the
// same weight. Or the key of a block is a mean of normed keys, weighted in each dimension, and
// heads have weights of their own (IndexerConfig::has_weighted_means; GLM 5.3, 2026). The keys of
// the tokens of an incomplete block, or their weighted sums, are a part of the sequence's state.
class IndexerBlock {
 public:
  struct Buffers {
    Rows queries;   // [n_rows_max, n_heads · head_dim]
    Rows inputs;    // [n_rows_max, model_dim], if queries have a norm of their own
    Rows keys;      // [n_rows_max, head_dim]; of weighted means also their gates, another head_dim
    Rows weights;   // [n_rows_max, n_heads]
    Rows selected;  // [n_rows_max, n_lists · n_listed()], positions or blocks as integers
    Rows means;     // [n_rows_max, head_dim], keys of blocks
    Rows ones;      // [1, n_heads], weights of heads with blocks
    Rows shares;    // [key_tokens, head_dim], weights of the mean
    // by layer with blocks: [kMaxDraftRows, columns of keys], keys of draft tokens
    std::vector<Rows> drafts;
    static Buffers take(const ModelConfig& config, uint32_t n_rows_max, RowBuffers& buffers);
  };

  // `model` and `backend` are borrowed.
  IndexerBlock(const Model& model, Backend& backend, const LayerGroups& groups, KvType kv_type,
               const Buffers& buffers);

  struct Input {
    Rows rows;   // the layer's normed input
    Rows low_q;  // the normed low-rank q; no columns if there is none
    std::span<const KvRun> runs;
  };
  // Computes index keys, queries and weights of all rows of a step. The runs are borrowed until the
  // next call.
  void write(uint32_t layer, const Input& in, const RopeTables& ropes, QueryScaling& scaling);

  // Starts a step with these positions; `states`, which begins it before the first write(), has the
  // states of the sequences. Only needed with blocks.
  void begin_step(std::span<const uint32_t> positions, RecurrentBlock* states);
  // Updates the states with accepted draft tokens.
  void replay();

  // Selects the tokens of all rows, unless this has been done since write().
  void select();
  // Selects the tokens of one run, among the last `window` ones; 0: among all.
  void select(const KvRun& run, uint32_t window);
  // Drops all rows but these, after selecting their tokens.
  void keep(std::span<const uint32_t> rows);

  // Returns the last selection; `rows` are those that keep() left.
  SelectedTokens selected() const;

 private:
  const IndexerConfig& config() const { return model_.config().layers[layer_].attention().indexer; }
  Rows compute_keys(Rows in, const RopeTables& ropes);
  Rows compute_block_keys(Rows in);
  Rows compute_weighted_means(Rows in);
  void norm_keys(Rows keys);
  void compute_queries(const Input& in, const RopeTables& ropes, QueryScaling& scaling);
  void rotate(Rows heads, const RopeTables& ropes);
  void select_rows(std::span<const KvRun> runs, uint32_t window);
  IndexTarget target(std::span<const KvRun> runs) const;

  const Model& model_;
  Backend& backend_;
  const KvType kv_type_;
  const Buffers buffers_;
  std::vector<uint64_t> offsets_;  // of the index keys in a page, by layer
  // With blocks: the convolutions that compute means, by layer; the angles of the first positions
  // of blocks, at the rows of their last tokens.
  std::vector<std::optional<StateConv>> means_;
  std::vector<std::optional<WeightedMeans>> weighted_means_;  // instead of them
  std::span<const uint32_t> positions_;
  std::optional<RopeTables> starts_;
  std::vector<uint32_t> start_positions_;
  RecurrentBlock* states_ = nullptr;
  uint32_t layer_ = 0;  // that of the last write()
  std::span<const KvRun> runs_;
  Rows queries_, weights_;
  bool is_selected_ = true;
  std::vector<uint32_t> rows_;  // SelectedTokens::rows
};

}  // namespace kvik
