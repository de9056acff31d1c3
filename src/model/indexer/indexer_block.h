#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "model/latent/query_scaling.h"
#include "model/layer_groups.h"
#include "model/model.h"
#include "model/rope.h"
#include "model/row_buffers.h"

namespace kvik {

// The indexers of layers that attend to selected tokens only (IndexerConfig; DeepSeek-V3.2, 2025).
// Per layer with an indexer of its own, write() stores the index keys of all rows of the step in
// the pages, then select() reads them from there. A layer that shares a selection uses that of the
// last such layer. While a row could attend to at most n_top tokens, nothing is selected, and no
// queries are computed. One thread.
class IndexerBlock {
 public:
  struct Buffers {
    Rows queries;   // [n_rows_max, n_heads · head_dim]
    Rows inputs;    // [n_rows_max, model_dim], if queries have a norm of their own
    Rows keys;      // [n_rows_max, head_dim]
    Rows weights;   // [n_rows_max, n_heads]
    Rows selected;  // [n_rows_max, n_top], positions as integers
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

  // Selects the tokens of all rows, unless this has been done since write().
  void select();
  // Selects the tokens of one run, among the last `window` ones; 0: among all.
  void select(const KvRun& run, uint32_t window);
  // Drops all rows but these, after selecting their tokens.
  void keep(std::span<const uint32_t> rows);

  // Returns the last selection; `rows` are those that keep() left.
  SelectedTokens selected() const;

 private:
  void write_queries(const Input& in, const RopeTables& ropes, QueryScaling& scaling);
  void turn(Rows heads, const RopeTables& ropes);
  const AttentionConfig& attention() const { return model_.config().layers[layer_].attention(); }
  void select_rows(std::span<const KvRun> runs, uint32_t window);

  const Model& model_;
  Backend& backend_;
  const KvType kv_type_;
  const Buffers buffers_;
  std::vector<uint64_t> offsets_;  // of the index keys in a page, by layer
  uint32_t layer_ = 0;             // that of the last write()
  std::span<const KvRun> runs_;
  Rows queries_, weights_;
  bool is_selected_ = true;
  std::vector<uint32_t> rows_;  // SelectedTokens::rows
};

}  // namespace kvik
