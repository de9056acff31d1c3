#pragma once

#include <cstdint>
#include <span>

#include "backend/backend.h"
#include "catalogue/model_config.h"
#include "model/row_buffers.h"

namespace kvik {

// The rows x that run through all layers, and how a half of a layer begins and ends on them: its
// input is x, normed where the model norms inputs; what it makes is normed and scaled where the
// model does that, and added to x. One thread.
class ResidualStream {
 public:
  struct Buffers {
    Rows x, spare;  // [n_rows_max, model_dim]
    static Buffers take(const ModelConfig& config, uint32_t n_rows_max, RowBuffers& buffers);
  };

  // `backend` and `config` are borrowed.
  ResidualStream(Backend& backend, const ModelConfig& config, const Buffers& buffers)
      : backend_(backend),
        config_(config),
        buffers_(buffers),
        x_(buffers.x),
        spare_(buffers.spare) {}

  // [n_rows, model_dim]
  Rows rows() const { return x_.slice(0, n_rows_); }
  uint32_t n_rows() const { return n_rows_; }

  void begin_step(uint32_t n_rows) {
    n_rows_ = n_rows;
    // Where they were in the step before: a device that knows a step knows it by its addresses.
    x_ = buffers_.x;
    spare_ = buffers_.spare;
  }
  // Only these rows are left, side by side.
  void keep(std::span<const uint32_t> rows);

  // norm(x), or x itself where `norm` is empty; valid until something is added to x.
  Rows normed(const Buffer& norm) { return normed(norm, 0, n_rows_); }
  // The same of the rows [first, first + n).
  Rows normed(const Buffer& norm, uint32_t first, uint32_t n);

  // x += residual_scale · norm(y · weightsᵀ + bias), without the norm and the bias where they are
  // empty.
  struct Projection {
    const PackedMatrix& weights;
    const Buffer& bias;
    const Buffer& post_norm;
  };
  void add_projection(Rows y, const Projection& to);

  // The same for a sum of several terms: they are added to the rows that begin_sum() gives, which
  // are x itself where nothing is done to the sum. Ends what normed() gave.
  Rows begin_sum(const Buffer& post_norm);
  void end_sum(Rows sum, const Buffer& post_norm);

 private:
  bool adds_directly(const Buffer& post_norm) const {
    return post_norm.size() == 0 && config_.residual_scale == 1.0f;
  }

  Backend& backend_;
  const ModelConfig& config_;
  const Buffers buffers_;
  uint32_t n_rows_ = 0;
  Rows x_, spare_;
};

}  // namespace kvik
