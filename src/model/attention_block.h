#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "model/bases/key_bases.h"
#include "model/latent_projection.h"
#include "model/layer_groups.h"
#include "model/model.h"
#include "model/residual_stream.h"
#include "model/rope.h"
#include "model/row_buffers.h"

namespace kvik {

// Where the rows of a step stand in the pages of each layer group.
using GroupRuns = std::vector<std::vector<KvRun>>;

// Attention as the mixer of a layer (Vaswani et al. 2017). A layer's turn is write_kv(), in which
// all rows of a step leave their K and V in the pages; keep(), in the last layer that does, where
// only some rows have anything left to give; and attend(), which reads pages alone and adds to the
// stream. One thread.
class AttentionBlock {
 public:
  // What all its layers work in.
  struct Buffers {
    Rows qkv;       // [n_rows_max, the widest layer's q_dim + 2 · kv_dim]
    Rows wanted_q;  // [n_rows_max, q_dim + gate_dim] q and gate of the rows that are kept
    Rows heads;     // [n_rows_max, n_heads · width of V] what attention gives
    Rows latent_q;  // [n_rows_max, q_dim], where qkv has none
    Rows ones;      // [1, head_dim], by which V's norm multiplies
    LatentProjection::Buffers latent;
    static Buffers take(const ModelConfig& config, uint32_t n_rows_max, RowBuffers& buffers);
  };

  // `model` and `backend` are borrowed.
  AttentionBlock(const Model& model, Backend& backend, KvType kv_type, const Buffers& buffers);

  // In which K and V go to the pages from now on; before, they go as they are.
  void set_bases(KeyBases bases) { bases_ = std::move(bases); }
  // Counts K of each step from now on, as it would be at positions all over a context.
  void observe_keys(KeyStatistics* statistics) { statistics_ = statistics; }

  const LayerGroups& groups() const { return groups_; }
  // Of a page of any group.
  size_t page_bytes() const;

  // `runs` is borrowed for the step.
  void begin_step(std::span<const uint32_t> positions, const GroupRuns& runs);

  // Q, K and V of norm(x); K and V go to their pages, where attend() finds them.
  void write_kv(uint32_t layer, ResidualStream& x);
  // Only these rows of the step attend, in this layer and those that follow, which must read what
  // others wrote. `runs` are theirs, once they lie side by side.
  void keep(std::span<const uint32_t> rows, const GroupRuns& runs);
  // x += output(attention(q, pages))
  void attend(uint32_t layer, ResidualStream& x);
  // The same where each run is one row, that sees its sequence's tokens but for the first.
  void attend_behind_first(uint32_t layer, ResidualStream& x);

 private:
  void turn(const AttentionConfig& a, Rows heads);
  void gate_output(Rows heads);
  const AttentionConfig& config_of(uint32_t layer) const {
    return model_.config().layers[layer].attention();
  }
  KvTarget target(uint32_t layer) const;
  // What the heads give of the target's rows.
  void gather(const KvTarget& kv, uint32_t layer, uint32_t window, Rows heads);
  Rows heads_of(const AttentionConfig& a, uint32_t n_rows) const;
  void project(uint32_t layer, Rows heads, ResidualStream& x);
  void observe(uint32_t layer, Rows k);
  void find_temperatures(std::span<const uint32_t> positions);
  Rows write_latent(uint32_t layer, ResidualStream& x);
  Rows write_heads(uint32_t layer, ResidualStream& x);

  const Model& model_;
  Backend& backend_;
  KvType kv_type_;
  LayerGroups groups_;
  std::vector<KvGeometry> geometries_;  // of the pages of each group
  RopeTables ropes_;
  Buffers buffers_;
  LatentProjection latent_;
  KeyBases bases_;
  KeyStatistics* statistics_ = nullptr;
  std::vector<float> temperatures_;  // of the step's rows; empty: all are 1
  std::span<const uint32_t> positions_;
  std::vector<uint32_t> kept_positions_;

  const GroupRuns* runs_ = nullptr;
  Rows q_;     // of the rows that attend
  Rows gate_;  // likewise, where the layer has one
};

}  // namespace kvik
