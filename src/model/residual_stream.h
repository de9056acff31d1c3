#pragma once

#include <cstdint>
#include <span>

#include "backend/backend.h"
#include "catalogue/model_config.h"
#include "model/row_buffers.h"

namespace kvik {

// The rows x that pass through all layers. It prepares the input of each half of a layer, which is
// x, normed if the model norms inputs; and it adds the output of the half to x, normed and scaled
// if the model does that. One thread.
class ResidualStream {
 public:
  struct Buffers {
    Rows x, spare;  // [n_rows_max, model_dim]
    Rows ones;      // [1, model_dim], weights of a norm without weights
    static Buffers take(const ModelConfig& config, uint32_t n_rows_max, RowBuffers& buffers);
  };

  // `backend` and `config` are borrowed.
  ResidualStream(Backend& backend, const ModelConfig& config, const Buffers& buffers);

  // [n_rows, model_dim]
  Rows rows() const { return x_.slice(0, n_rows_); }
  uint32_t n_rows() const { return n_rows_; }

  void begin_step(uint32_t n_rows) {
    n_rows_ = n_rows;
    // Use the same addresses as in the step before: a device recognizes a step by its addresses.
    x_ = buffers_.x;
    spare_ = buffers_.spare;
    has_input_ = false;
  }
  // x = embeddings of the tokens, scaled and normed as the model requires.
  void embed(const PackedMatrix& table, std::span<const TokenId> tokens);
  // x += rows of the table of positions.
  void add_positions(const PackedMatrix& table, std::span<const uint32_t> positions);
  // Drops all rows but these, which become adjacent.
  void keep(std::span<const uint32_t> rows);

  // Sets x to zero and returns the rows of an input, which the caller computes. normed() then norms
  // it instead of x, in place, so that it can have only one norm. With hyper-connections, begins
  // each half of a layer.
  Rows begin_half();
  // Makes that input x.
  void set_to_input();

  // Returns norm(x), or x itself if `norm` is empty; valid until something is added to x.
  Rows normed(const Buffer& norm) { return normed(norm, 0, n_rows_); }
  // The same for rows [first, first + n).
  Rows normed(const Buffer& norm, uint32_t first, uint32_t n);

  // x += residual_scale · norm(y · weightsᵀ + bias); an empty norm or bias is left out.
  struct Projection {
    const PackedMatrix& weights;
    const Buffer& bias;
    const Buffer& post_norm;
  };
  void add_projection(Rows y, const Projection& to);

  // The same for a sum of several terms. The caller adds them to the rows that begin_sum() returns,
  // which are x itself if the sum is neither normed nor scaled. Invalidates the result of normed().
  Rows begin_sum(const Buffer& post_norm);
  void end_sum(Rows sum, const Buffer& post_norm);

 private:
  void normalize(Rows x, const Buffer& norm, float eps, Rows out);
  bool adds_directly(const Buffer& post_norm) const {
    return post_norm.size() == 0 && config_.residual_scale == 1.0f;
  }

  Backend& backend_;
  const ModelConfig& config_;
  const Buffers buffers_;
  uint32_t n_rows_ = 0;
  Rows x_, spare_;
  bool has_input_ = false;              // spare_ has the input of a half
  const Buffer* input_norm_ = nullptr;  // norm that the input has; null: none
};

}  // namespace kvik
