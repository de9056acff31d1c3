#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/token_id.h"
#include "model/model.h"
#include "model/recurrent/recurrent_block.h"
#include "model/recurrent/state_conv.h"
#include "model/row_buffers.h"
#include "model/streams/hyper_connections.h"

namespace kvik {

// The embeddings of n-grams (NgramConfig), which are added to the streams sⱼ before a layer. With
// e, the rows of a token's n-grams side by side:
//
//   kⱼ = norm(key · e)ⱼ,  g[j] = sigmoid(root(kⱼ · norm(sⱼ) / √model_dim))
//   vⱼ = g[j] · (value · e)
//   sⱼ = sⱼ + vⱼ + silu(convolution(norm(vⱼ)))
//
// root(x) = sign(x) √|x|. The inputs of the convolution are a part of a sequence's state; the
// tokens before those of a step are not, because the caller knows them. As in Transformers. One
// thread.
class NgramBlock {
 public:
  struct Buffers {
    Rows embedding;   // [n_rows_max, dim]
    Rows keys, rows;  // [n_rows_max, n · model_dim]
    Rows value;       // [n_rows_max, model_dim]
    Rows gates;       // [n_rows_max, n]
    Rows drafts;      // [kMaxDraftRows, n · model_dim]
    static Buffers take(const ModelConfig& config, uint32_t n_rows_max, RowBuffers& buffers);
  };

  // `model`, which must have n-grams, and `backend` are borrowed.
  NgramBlock(const Model& model, Backend& backend, const Buffers& buffers, uint64_t state_offset);

  void begin_step() { places_.clear(); }
  // Adds the next rows of the step. earlier: the tokens of the sequence before them, at least the
  // last n_tokens − 1 unless there are fewer.
  void add_sequence(std::span<const TokenId> earlier, std::span<const TokenId> tokens);
  bool is_before(uint32_t layer) const { return layer == config_.layer; }
  // Adds the embeddings to the streams of all rows.
  void add(HyperConnections& streams, RecurrentBlock& states, uint32_t n_rows);
  // Updates the states with accepted draft tokens.
  void replay(RecurrentBlock& states) { conv_.replay(states, buffers_.rows, buffers_.keys); }

 private:
  const Model& model_;
  Backend& backend_;
  const NgramConfig& config_;
  const Buffers buffers_;
  StateConv conv_;
  std::vector<uint32_t> places_;  // rows of the table, [n_rows, n_heads]
};

}  // namespace kvik
