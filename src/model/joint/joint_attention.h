#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "model/layer_groups.h"
#include "model/model.h"
#include "model/recurrent/recurrent_block.h"
#include "model/recurrent/weighted_means.h"
#include "model/residual_stream.h"
#include "model/rope.h"
#include "model/row_buffers.h"

namespace kvik {

// Attention in which K and V are one vector (JointConfig), to the tokens of a window and to entries
// (EntriesConfig). Per layer, write() stores K, and the entries that end in the step, in the pages;
// attend() reads them from there. The sums of the newest entries are a part of the sequences'
// states. While a row could attend to at most n_top entries, nothing is selected, and the indexer's
// queries are not computed. One thread.
class JointAttention {
 public:
  struct Buffers {
    Rows down;           // [n_rows_max, q_rank + head_dim]
    Rows ones;           // [1, head_dim]
    Rows inputs;         // [n_rows_max, values and gates of entries]
    Rows entries;        // [n_rows_max, head_dim]
    Rows index_queries;  // [n_rows_max, n_index_heads · index_dim]
    Rows index_weights;  // [n_rows_max, n_index_heads]
    Rows selected;       // [n_rows_max, n_top + 1], entries as integers
    Rows low;            // [n_rows_max, n_groups · group_rank]
    // by layer: [kMaxDraftRows, values and gates of entries, then of those of the indexer], of
    // draft tokens
    std::vector<Rows> drafts;
    static Buffers take(const ModelConfig& config, uint32_t n_rows_max, RowBuffers& buffers);
  };

  // `model` and `backend` are borrowed.
  JointAttention(const Model& model, Backend& backend, const LayerGroups& groups, KvType kv_type,
                 const Buffers& buffers);

  // Starts a step with these positions. `states` begins it before the first write(); it is null if
  // no layer has entries.
  void begin_step(std::span<const uint32_t> positions, RecurrentBlock* states);
  // Updates the states with accepted draft tokens.
  void replay();

  // Pages of a layer's K, and of its entries.
  struct Targets {
    KvTarget kv;
    EntryTarget entries;
  };
  // Writes K and entries of all rows of the step, and the queries to q: [n_rows, n_heads ·
  // head_dim]. The runs are borrowed until the next call.
  void write(uint32_t layer, const Targets& to, const RopeTables& ropes, ResidualStream& x, Rows q);
  // Drops all rows but these, after selecting their entries.
  void keep(std::span<const uint32_t> rows);
  // x += output(attention(q, pages)); heads is room for the output of the heads.
  void attend(uint32_t layer, const Targets& from, const RopeTables& ropes, Rows q, Rows heads,
              ResidualStream& x);
  // x += output(heads); changes the heads.
  void project(uint32_t layer, const RopeTables& ropes, Rows heads, ResidualStream& x);

 private:
  // Entries of a layer, or those of its indexer.
  struct Part {
    const EntryWeights& weights;
    WeightedMeans means;
  };
  const AttentionConfig& config_of(uint32_t layer) const {
    return model_.config().layers[layer].attention();
  }
  // Returns the entries that end in the step, in the rows of their last tokens.
  Rows add_tokens(uint32_t layer, Part& part, Rows in);
  void rotate(uint32_t layer, Rows heads, uint32_t head_dim, const RopeAngles& angles);
  void compute_queries(uint32_t layer, Rows in, Rows low_q, const RopeTables& ropes);
  void select();

  const Model& model_;
  Backend& backend_;
  const KvType kv_type_;
  const Buffers buffers_;
  std::vector<uint64_t> index_offsets_;  // of the index keys in a page, by layer
  std::vector<std::optional<Part>> own_parts_, index_parts_;  // by layer
  // Angles of the first positions of entries at the rows of their last tokens, by tokens of an
  // entry.
  std::map<uint32_t, RopeTables> starts_;
  std::vector<uint32_t> start_positions_;
  RecurrentBlock* states_ = nullptr;
  std::span<const uint32_t> positions_;

  uint32_t layer_ = 0;  // that of the last write()
  std::span<const KvRun> entry_runs_;
  Rows index_queries_, index_weights_;
  bool is_selected_ = true;
  std::vector<uint32_t> rows_;  // EntrySelection::rows
};

}  // namespace kvik
