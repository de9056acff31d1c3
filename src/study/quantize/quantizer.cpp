#include "study/quantize/quantizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "format/gguf/gguf_scales.h"
#include "tensor/blocks.h"
#include "tensor/e4m3.h"
#include "tensor/encode/encode.h"

namespace kvik {
namespace {

constexpr uint64_t kSlabValues = uint64_t{1} << 23;
constexpr uint64_t kItemValues = uint64_t{1} << 15;
constexpr float kLargestF16 = 65504;

// Returns the number of rows that are converted together.
uint64_t rows_of(uint64_t n_values, uint64_t n_cols) {
  return std::max<uint64_t>(1, n_values / n_cols);
}

bool has_f16_range(ElementType type) {
  return type != ElementType::kF32 && type != ElementType::kBF16;
}

// Returns an error about the first value of a row that cannot be stored; std::nullopt if there is
// none.
std::optional<Error> error_in_row(const TensorInfo& info, ElementType to, uint64_t row,
                                  std::span<const float> values) {
  for (size_t column = 0; column < values.size(); ++column) {
    const float value = values[column];
    if (!std::isfinite(value)) {
      return Error{ErrorCode::kCorrupt,
                   fmt::format("tensor '{}' holds {} in row {}, column {}, expected finite numbers",
                               info.name, value, row, column)};
    }
    if (has_f16_range(to) && std::fabs(value) > kLargestF16) {
      return Error{ErrorCode::kCorrupt,
                   fmt::format("tensor '{}' holds {} in row {}, column {}, expected no more than "
                               "the {} of an f16, which is what {} scales with",
                               info.name, value, row, column, kLargestF16, name_of(to))};
    }
  }
  return std::nullopt;
}

ErrorSums compare(std::span<const float> read, std::span<const float> written) {
  ErrorSums sums;
  for (size_t i = 0; i < read.size(); ++i) {
    const double value = static_cast<double>(read[i]);
    const double difference = static_cast<double>(written[i]) - value;
    sums.lost += difference * difference;
    sums.all += value * value;
  }
  return sums;
}

uint64_t matrices_of(const TensorInfo& tensor) {
  return tensor.shape.size() == 3 ? tensor.shape[0] : 1;
}

}  // namespace

double ErrorSums::relative_rmse() const { return all > 0 ? std::sqrt(lost / all) : 0; }

// A group of rows that are converted together.
struct Quantizer::Slab {
  const QuantizedTensor& tensor;
  std::span<const std::byte> in;  // the whole tensor
  std::span<const uint32_t> gather;
  std::span<const float> in_scales;  // TensorSource::scales()
  uint64_t n_cols;
  uint64_t in_row_bytes, out_row_bytes;
  uint64_t rows_per_matrix;
  std::span<const std::vector<float>> weights;  // one entry for each matrix; empty: none
  std::span<const float> out_scales = {};       // the same for the output
  uint64_t first_row = 0, n_rows = 0;
  std::span<std::byte> out = {};

  const std::byte* row(uint64_t tensor_row) const { return in.data() + tensor_row * in_row_bytes; }
  float in_scale(uint64_t matrix) const {
    return in_scales.empty() ? 1.0f : in_scales[in_scales.size() == 1 ? 0 : matrix];
  }
  // Returns whether the bytes are copied unchanged, with their scales if there are any.
  bool is_copied() const {
    return tensor.from == tensor.info.type && (in_scales.empty() || tensor.scales);
  }
};

Result<std::vector<QuantizedTensor>> Quantizer::plan() const {
  std::vector<QuantizedTensor> plan;
  for (const TensorInfo& info : source_.tensors()) {
    const WeightMix::Choice choice = mix_.choose(info);
    if (choice.type != info.type && !can_dequantize(info.type)) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("tensor '{}' is of type {}, which cannot be read here", info.name,
                              name_of(info.type)));
    }
    TRY_ASSIGN(const auto weights, weights_of(info));
    QuantizedTensor tensor{.info = info,
                           .from = info.type,
                           .wanted = choice.wanted,
                           .has_importance = !weights.empty()};
    tensor.info.type = choice.type;
    tensor.info.n_bytes = *bytes_of(choice.type, info.shape);
    tensor.scales = gguf_scales_of(tensor.info, source_.metadata());
    plan.push_back(std::move(tensor));
  }
  return plan;
}

// Returns the weights of the columns of each matrix. An entry is empty for a matrix without data;
// the result is empty for a tensor without data.
Result<std::vector<std::vector<float>>> Quantizer::weights_of(const TensorInfo& tensor) const {
  std::vector<std::vector<float>> weights;
  if (!importance_ || tensor.shape.size() < 2) return weights;
  for (uint64_t matrix = 0; matrix < matrices_of(tensor); ++matrix) {
    TRY_ASSIGN(auto of_matrix, importance_->weights(tensor, matrix));
    weights.push_back(std::move(of_matrix));
  }
  if (std::ranges::all_of(weights, &std::vector<float>::empty)) weights.clear();
  return weights;
}

Result<void> Quantizer::write(std::vector<QuantizedTensor>& plan, GgufOutput& output,
                              const Progress& progress) {
  progress_ = progress;
  done_bytes_ = 0;
  scratch_.resize(threads_.n_threads());
  for (size_t i = 0; i < plan.size(); ++i) {
    TRY(convert(i, plan[i], output));
    source_.release(i);
  }
  return {};
}

Result<void> Quantizer::advance(uint64_t n_bytes) {
  done_bytes_ += n_bytes;
  if (!progress_ || progress_(done_bytes_)) return {};
  return fail(ErrorCode::kUnavailable, "interrupted");
}

Result<void> Quantizer::convert(size_t index, QuantizedTensor& tensor, GgufOutput& output) {
  const TensorInfo& from = source_.tensors()[index];
  TRY_ASSIGN(const auto in, source_.read(index));
  TRY_ASSIGN(const auto weights, weights_of(from));
  const uint64_t n_cols = from.shape.back();
  const uint64_t n_rows = from.n_elements() / n_cols;
  const uint64_t slab_rows = rows_of(kSlabValues, n_cols);
  std::vector<std::byte> out;
  std::vector<ErrorSums> sums;
  Slab slab{.tensor = tensor,
            .in = in,
            .gather = source_.gather(index),
            .in_scales = source_.scales(index),
            .n_cols = n_cols,
            .in_row_bytes = from.n_bytes / n_rows,
            .out_row_bytes = tensor.info.n_bytes / n_rows,
            .rows_per_matrix = n_rows / matrices_of(from),
            .weights = weights};
  const std::vector<float> scales = choose_scales(slab, n_rows);
  slab.out_scales = scales;
  for (uint64_t first = 0; first < n_rows; first += slab_rows) {
    const uint64_t n = std::min(slab_rows, n_rows - first);
    sums.assign(n, {});
    out.resize(n * slab.out_row_bytes);
    slab.first_row = first;
    slab.n_rows = n;
    slab.out = out;
    const uint64_t item_rows = rows_of(kItemValues, n_cols);
    threads_.run((n + item_rows - 1) / item_rows, [&](size_t item, uint32_t thread) {
      const uint64_t end = std::min(n, (item + 1) * item_rows);
      for (uint64_t r = item * item_rows; r < end; ++r) sums[r] = convert_row(slab, r, thread);
    });
    for (uint64_t r = 0; r < n; ++r) {
      tensor.error.add(sums[r]);
      if (std::isfinite(sums[r].lost)) continue;
      std::vector<float> values(n_cols);
      dequantize_row(from.type, slab.row(first + r), values);
      if (auto failure = error_in_row(from, tensor.info.type, first + r, values)) {
        return std::unexpected(std::move(*failure));
      }
    }
    TRY(output.write(out));
    TRY(advance(n * slab.in_row_bytes));
  }
  if (!tensor.scales) return {};
  return output.write(std::as_bytes(std::span(scales)));
}

// Chooses scales that map the largest value of each matrix to the largest value that its blocks can
// represent.
std::vector<float> Quantizer::choose_scales(const Slab& slab, uint64_t n_rows) {
  if (!slab.tensor.scales) return {};
  std::vector<float> scales(n_rows / slab.rows_per_matrix);
  if (slab.is_copied()) {
    for (size_t i = 0; i < scales.size(); ++i) scales[i] = slab.in_scale(i);
    return scales;
  }
  std::vector<float> peaks(n_rows);
  const uint64_t item_rows = rows_of(kItemValues, slab.n_cols);
  threads_.run((n_rows + item_rows - 1) / item_rows, [&](size_t item, uint32_t thread) {
    std::vector<float>& values = scratch_[thread].values;
    values.resize(slab.n_cols);
    for (uint64_t r = item * item_rows; r < std::min(n_rows, (item + 1) * item_rows); ++r) {
      dequantize_row(slab.tensor.from, slab.row(r), values);
      for (const float value : values) peaks[r] = std::max(peaks[r], std::fabs(value));
    }
  });
  for (size_t i = 0; i < scales.size(); ++i) {
    const auto rows = std::span(peaks).subspan(i * slab.rows_per_matrix, slab.rows_per_matrix);
    const float scale =
        *std::ranges::max_element(rows) * slab.in_scale(i) / (kLargestE2m1 * kLargestE4m3);
    scales[i] = scale >= std::numeric_limits<float>::min() && std::isfinite(scale) ? scale : 1.0f;
  }
  return scales;
}

// Converts one row of the slab. A row that cannot be stored has an infinite error.
ErrorSums Quantizer::convert_row(const Slab& slab, uint64_t row, uint32_t thread) {
  Scratch& scratch = scratch_[thread];
  scratch.values.resize(slab.n_cols);
  scratch.decoded.resize(slab.n_cols);
  const uint64_t tensor_row = slab.first_row + row;
  const uint64_t matrix = tensor_row / slab.rows_per_matrix;
  const std::byte* in = slab.row(tensor_row);
  std::byte* out = slab.out.data() + row * slab.out_row_bytes;
  const ElementType to = slab.tensor.info.type;
  const auto infinite = std::numeric_limits<double>::infinity();
  if (slab.tensor.from == to && !can_dequantize(to)) {  // copied unchanged
    std::copy_n(in, slab.in_row_bytes, out);
    return {};
  }
  dequantize_row(slab.tensor.from, in, scratch.values);
  if (!slab.in_scales.empty()) {
    for (float& value : scratch.values) value *= slab.in_scale(matrix);
  }
  if (!slab.gather.empty()) {  // restores the original order of the columns
    scratch.decoded = scratch.values;
    for (size_t j = 0; j < slab.n_cols; ++j) scratch.values[slab.gather[j]] = scratch.decoded[j];
  }
  float peak = 0;
  bool is_finite = true;
  for (const float value : scratch.values) {
    is_finite &= std::isfinite(value);
    peak = std::max(peak, std::fabs(value));
  }
  if (!is_finite || (has_f16_range(to) && peak > kLargestF16)) return {infinite, 0};
  if (slab.is_copied()) {
    std::copy_n(in, slab.in_row_bytes, out);
    return compare(scratch.values, scratch.values);
  }
  const std::span<const float> weights =
      slab.weights.empty() ? std::span<const float>() : slab.weights[matrix];
  const float scale = slab.out_scales.empty() ? 1.0f : slab.out_scales[matrix];
  if (scale != 1) {
    for (float& value : scratch.values) value /= scale;
  }
  encode_row(to, scratch.values, weights, out);
  dequantize_row(to, out, scratch.decoded);
  const ErrorSums sums = compare(scratch.values, scratch.decoded);
  const double square = double{scale} * double{scale};
  return {sums.lost * square, sums.all * square};
}

}  // namespace kvik
