#include "model/residual_stream.h"

#include <utility>

namespace kvik {

ResidualStream::Buffers ResidualStream::Buffers::take(const ModelConfig& config,
                                                      uint32_t n_rows_max, RowBuffers& buffers) {
  return {.x = buffers.take(n_rows_max, config.model_dim),
          .spare = buffers.take(n_rows_max, config.model_dim)};
}

void ResidualStream::keep(std::span<const uint32_t> rows) {
  backend_.gather(this->rows(), rows, spare_.slice(0, static_cast<uint32_t>(rows.size())));
  std::swap(x_, spare_);
  n_rows_ = static_cast<uint32_t>(rows.size());
}

Rows ResidualStream::normed(const Buffer& norm, uint32_t first, uint32_t n) {
  if (norm.size() == 0) return x_.slice(first, n);
  const Rows normed = spare_.slice(0, n);
  backend_.rms_norm(x_.slice(first, n), norm.floats(), config_.model_dim, config_.norm_eps, normed);
  return normed;
}

void ResidualStream::add_projection(Rows y, const Projection& to) {
  if (adds_directly(to.post_norm)) {
    backend_.matmul_add(y, to.weights, rows());
    if (to.bias.size() > 0) backend_.add_bias(rows(), to.bias.floats());
    return;
  }
  const Rows out = spare_.slice(0, n_rows_);
  backend_.matmul(y, to.weights, out);
  if (to.bias.size() > 0) backend_.add_bias(out, to.bias.floats());
  end_sum(out, to.post_norm);
}

Rows ResidualStream::begin_sum(const Buffer& post_norm) {
  if (adds_directly(post_norm)) return rows();
  const Rows sum = spare_.slice(0, n_rows_);
  backend_.clear(sum);
  return sum;
}

void ResidualStream::end_sum(Rows sum, const Buffer& post_norm) {
  if (adds_directly(post_norm)) return;
  if (post_norm.size() > 0) {
    backend_.rms_norm(sum, post_norm.floats(), config_.model_dim, config_.norm_eps, sum);
  }
  if (config_.residual_scale != 1.0f) backend_.scale(sum, config_.residual_scale);
  backend_.add(rows(), sum);
}

}  // namespace kvik
