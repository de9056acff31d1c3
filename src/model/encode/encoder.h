#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/token_id.h"
#include "model/mlp_block.h"
#include "model/model.h"
#include "model/rope.h"
#include "model/row_buffers.h"

namespace kvik {

// A text of a batch.
struct EncoderText {
  std::span<const TokenId> tokens;       // at least one
  uint32_t second_segment = UINT32_MAX;  // first token of type 1, in models with token types
  bool wants_scores = false;
};

// The forward pass of encoders, models with EncoderConfig. Computes all texts of a batch together,
// without padding, and returns the state of each token after the last layer. The bits of a text do
// not depend on the other texts.
//
// K and V of one layer are written to pages, which attention reads and the next layer overwrites;
// there is no KV cache. One thread.
class Encoder {
 public:
  // Numbers of rows and texts of a batch. n_rows is at least the number of tokens of any text.
  struct Limits {
    uint32_t n_rows = 0;
    uint32_t n_texts = 0;
  };

  // `model` and `backend` are borrowed. The backend must have can_encode().
  Encoder(const Model& model, Backend& backend, const Limits& limits);

  // Returns the bytes of all buffers of such an encoder.
  static uint64_t buffer_bytes(const ModelConfig& config, const Limits& limits,
                               const Backend& backend);
  // Returns the bounds by which the backend's scratch memory is sized.
  static WorkLimits work_limits(const ModelConfig& config, std::vector<WeightKind> kinds,
                                const Limits& limits);

  // Computes the batch. Calls is_interrupted before each layer; if it returns true, returns false,
  // and there are no results.
  bool forward(std::span<const EncoderText> batch, const std::function<bool()>& is_interrupted);

  // Returns the states of the last batch's tokens, text by text: [n_rows, model_dim].
  std::span<const float> states() const { return states_; }
  // Returns the classifier's scores of a text that wants them: [n_labels].
  std::span<const float> scores(size_t text) const;

 private:
  struct Buffers {
    Rows x, spare;  // [n_rows, model_dim]
    Rows qkv;       // [n_rows, widest layer's qkv_dim]
    Rows heads;     // [n_rows, widest layer's q_dim]
    Rows mlp;
    Rows pooled, dense;  // [n_texts, model_dim]
    Rows scores;         // [n_texts, n_labels]
    static Buffers take(const ModelConfig& config, const Limits& limits, RowBuffers& buffers);
  };

  void lay_out(std::span<const EncoderText> batch);
  void embed();
  void attend(uint32_t layer);
  void feed_forward(uint32_t layer);
  void classify(Rows states);
  // out = the norm of x with these weights; with none, returns x.
  Rows normed(Rows x, const Buffer& norm, Rows out);
  void norm_heads(Rows q, Rows k, const AttentionWeights& w, uint32_t head_dim);
  void add_projection(Rows y, const PackedMatrix& weights, const Buffer& bias, const Buffer& norm);
  Rows x() const { return buffers_.x.slice(0, n_rows_); }
  Rows spare() const { return buffers_.spare.slice(0, n_rows_); }

  const Model& model_;
  Backend& backend_;
  RowBuffers memory_;
  Buffers buffers_;
  GatedProduct gated_;
  RopeTables ropes_;
  size_t page_bytes_;
  Buffer pages_;

  // The current batch.
  uint32_t n_rows_ = 0;
  std::vector<TokenId> tokens_, types_;
  std::vector<uint32_t> positions_;
  std::vector<std::byte*> page_table_;  // pages of all texts, one text after the other
  std::vector<KvRun> runs_;
  std::vector<uint32_t> first_rows_;  // of texts that want scores
  std::vector<uint32_t> score_rows_;  // by text: row of the scores; UINT32_MAX: it wants none
  std::vector<float> states_, scores_;
};

}  // namespace kvik
