#include "model/residual_stream.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "base/check.h"

namespace kvik {

ResidualStream::Buffers ResidualStream::Buffers::take(const ModelConfig& config,
                                                      uint32_t n_rows_max, RowBuffers& buffers) {
  return {.x = buffers.take(n_rows_max, config.model_dim),
          .spare = buffers.take(n_rows_max, config.model_dim),
          .ones = buffers.take(1, config.has_embedding_norm ? config.model_dim : 0)};
}

ResidualStream::ResidualStream(Backend& backend, const ModelConfig& config, const Buffers& buffers)
    : backend_(backend), config_(config), buffers_(buffers), x_(buffers.x), spare_(buffers.spare) {
  const std::vector<float> ones(buffers_.ones.n_cols, 1.0f);
  if (ones.empty()) return;
  backend.memory().copy_in(reinterpret_cast<std::byte*>(buffers_.ones.data),
                           std::as_bytes(std::span(ones)));
}

void ResidualStream::embed(const PackedMatrix& table, std::span<const TokenId> tokens) {
  backend_.embed(table, tokens, rows());
  if (config_.embedding_scale != 1.0f) backend_.scale(rows(), config_.embedding_scale);
  if (!config_.has_embedding_norm) return;
  backend_.rms_norm(rows(), buffers_.ones.data, config_.model_dim, config_.norm_eps, rows());
}

void ResidualStream::add_positions(const PackedMatrix& table, std::span<const uint32_t> positions) {
  const Rows added = spare_.slice(0, n_rows_);
  backend_.embed(table, positions, added);
  backend_.add(rows(), added);
}

Rows ResidualStream::begin_half() {
  has_input_ = true;
  input_norm_ = nullptr;
  backend_.clear(rows());
  return spare_.slice(0, n_rows_);
}

void ResidualStream::set_to_input() {
  CHECK(has_input_ && !input_norm_);
  std::swap(x_, spare_);
  has_input_ = false;
}

void ResidualStream::keep(std::span<const uint32_t> rows) {
  if (has_input_) {  // x is zero, and the input has been read
    n_rows_ = static_cast<uint32_t>(rows.size());
    return;
  }
  backend_.gather(this->rows(), rows, spare_.slice(0, static_cast<uint32_t>(rows.size())));
  std::swap(x_, spare_);
  n_rows_ = static_cast<uint32_t>(rows.size());
}

Rows ResidualStream::normed(const Buffer& norm, uint32_t first, uint32_t n) {
  if (norm.size() == 0) return (has_input_ ? spare_ : x_).slice(first, n);
  if (has_input_) {
    const Rows input = spare_.slice(first, n);
    CHECK(n == n_rows_ && (!input_norm_ || input_norm_ == &norm));
    if (!input_norm_) normalize(input, norm, config_.norm_eps, input);
    input_norm_ = &norm;
    return input;
  }
  const Rows normed = spare_.slice(0, n);
  normalize(x_.slice(first, n), norm, config_.norm_eps, normed);
  return normed;
}

void ResidualStream::normalize(Rows x, const Buffer& norm, float eps, Rows out) {
  const uint32_t dim = config_.model_dim;
  if (config_.norm == NormKind::kRms) {
    backend_.rms_norm(x, norm.floats(), dim, eps, out);
    return;
  }
  const bool has_bias = config_.norm == NormKind::kLayerWithBias;
  backend_.layer_norm(x, norm.floats(), has_bias ? norm.floats() + dim : nullptr, eps, out);
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
    normalize(sum, post_norm, config_.post_norm_eps, sum);
  }
  if (config_.residual_scale != 1.0f) backend_.scale(sum, config_.residual_scale);
  backend_.add(rows(), sum);
}

}  // namespace kvik
