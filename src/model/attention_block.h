#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "model/bases/key_bases.h"
#include "model/indexer/indexer_block.h"
#include "model/joint/joint_attention.h"
#include "model/latent/latent_projection.h"
#include "model/latent/query_scaling.h"
#include "model/layer_groups.h"
#include "model/model.h"
#include "model/residual_stream.h"
#include "model/rope.h"
#include "model/row_buffers.h"

namespace kvik {

// Runs of a step's rows in the pages, for each layer group.
using GroupRuns = std::vector<std::vector<KvRun>>;

// Attention as the mixer of a layer (Vaswani et al. 2017). Per layer, the decoder calls write_kv(),
// which stores K and V of all rows of the step in the pages; keep(), only in the last layer that
// writes K and V, which drops the rows whose outputs are not needed; and attend(), which reads K
// and V from the pages alone and adds to the residual stream. One thread.
class AttentionBlock {
 public:
  // Buffers that all layers share.
  struct Buffers {
    Rows qkv;       // [n_rows_max, the widest layer's q_dim + 2 · kv_dim]
    Rows wanted_q;  // [n_rows_max, q_dim + gate_dim], q and gate of the rows that keep() leaves
    Rows heads;     // [n_rows_max, n_heads · width of V], output of the heads
    Rows latent_q;  // [n_rows_max, q_dim], for layers with MLA
    // [n_rows_max, kv_dim or output_dim], V with zeros after each head and output without them, for
    // layers whose V is narrower than K
    Rows narrow;
    Rows scratch;  // [n_rows_max, gate_dim], for gates that one operation does not apply
    Rows ones;     // [1, head_dim], weights of norms without weights
    LatentProjection::Buffers latent;
    Rows query_factors;  // of QueryScaling
    IndexerBlock::Buffers indexer;
    JointAttention::Buffers joint;
    static Buffers take(const ModelConfig& config, uint32_t n_rows_max, RowBuffers& buffers);
  };

  // `model` and `backend` are borrowed.
  AttentionBlock(const Model& model, Backend& backend, KvType kv_type, const Buffers& buffers);

  // Sets the bases in which K and V are stored from now on. Until then they are stored unchanged.
  void set_bases(KeyBases bases) { bases_ = std::move(bases); }
  // Adds K of every following step to the statistics, as if its tokens were spread over a long
  // context.
  void observe_keys(KeyStatistics* statistics) { statistics_ = statistics; }

  // Sets the block with the states of the sequences, a part of which an indexer of blocks has, or
  // layers with entries. It is borrowed.
  void use_states(RecurrentBlock& states) { states_ = &states; }
  // Updates the states with accepted draft tokens.
  void replay() {
    if (indexer_) indexer_->replay();
    if (joint_) joint_->replay();
  }

  const LayerGroups& groups() const { return groups_; }
  // Bytes of one page of any group.
  size_t page_bytes() const;

  // Starts a step. `positions` and `runs` are borrowed until it ends.
  void begin_step(std::span<const uint32_t> positions, const GroupRuns& runs);

  // Computes Q, K and V of norm(x). K and V are written to their pages, where attend() reads them.
  void write_kv(uint32_t layer, ResidualStream& x);
  // The same for a layer without MLA that has another input, with these rows in place of norm(x).
  void write_kv(uint32_t layer, Rows input);
  // Drops all rows of the step but these, for attend() of this layer and for all later layers,
  // which must share K and V of earlier layers. `runs` are the runs of the remaining rows.
  void keep(std::span<const uint32_t> rows, const GroupRuns& runs);
  // x += output(attention(q, pages))
  void attend(uint32_t layer, ResidualStream& x);
  // Like attend(), but without the first token of each sequence. Each run must be a single row, not
  // at position 0.
  void attend_after_first(uint32_t layer, ResidualStream& x);

 private:
  // Normalize all heads, if the layer has such norms.
  void norm_queries(uint32_t layer, Rows q);
  void norm_keys(uint32_t layer, Rows k);
  void norm_heads(const AttentionConfig& a, uint32_t norm_dim, const Buffer& norm, Rows heads);
  void turn(const AttentionConfig& a, Rows heads);
  // heads *= f(gate), if the layer has an output gate
  void gate_output(const AttentionConfig& a, Rows heads);
  const AttentionConfig& config_of(uint32_t layer) const {
    return model_.config().layers[layer].attention();
  }
  KvTarget target(uint32_t layer) const;
  JointAttention::Targets joint_targets(uint32_t layer) const;
  // Computes the output of the heads for the rows of `kv`.
  void gather(const KvTarget& kv, uint32_t layer, uint32_t window, Rows heads);
  Rows heads_of(const AttentionConfig& a, uint32_t n_rows) const;
  // Returns V as it is stored.
  Rows stored_values(const AttentionConfig& a, Rows v);
  void project(uint32_t layer, Rows heads, ResidualStream& x);
  void observe(uint32_t layer, Rows k);
  void compute_temperatures(std::span<const uint32_t> positions);
  // Returns runs that begin at the chunk of their first row, valid until the next call.
  std::span<const KvRun> runs_in_chunks(std::span<const KvRun> runs, uint32_t chunk_tokens);
  Rows write_latent(uint32_t layer, ResidualStream& x);
  Rows write_heads(uint32_t layer, Rows input);
  void scale_queries(uint32_t layer);

  const Model& model_;
  Backend& backend_;
  KvType kv_type_;
  LayerGroups groups_;
  std::vector<KvGeometry> geometries_;  // by layer group
  RopeTables ropes_;
  Buffers buffers_;
  LatentProjection latent_;
  QueryScaling query_scaling_;
  std::optional<IndexerBlock> indexer_;  // only if layers select the tokens to attend to
  std::optional<JointAttention> joint_;  // only if K and V of layers are one vector
  RecurrentBlock* states_ = nullptr;
  KeyBases bases_;
  KeyStatistics* statistics_ = nullptr;
  TemperatureConfig temperature_;    // of the layers that have one
  std::vector<float> temperatures_;  // factor of q of each row; empty: all are 1
  std::vector<KvRun> chunk_runs_;
  std::vector<float> zeros_;  // [gate_dim]
  std::span<const uint32_t> positions_;
  std::vector<uint32_t> kept_positions_;

  const GroupRuns* runs_ = nullptr;
  Rows q_;     // q of the rows that attend
  Rows gate_;  // output gate of these rows; no columns if the layer has none
};

}  // namespace kvik
