#include "format/adapter/base_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "base/check.h"
#include "format/quoted.h"
#include "tensor/blocks.h"

namespace kvik {
namespace {

// Maximum bytes of f32 values in memory while dora_scales() computes the lengths of rows.
constexpr uint64_t kChunkBytes = uint64_t{16} << 20;

// Returns the index of a tensor. The head of a model with a tied head is its embedding.
std::optional<size_t> find_tensor(const ModelSource& base, TensorId tensor) {
  const auto found = base.find(name_of(tensor));
  if (found || tensor.role != TensorRole::kHead) return found;
  return base.find(name_of(TensorId{TensorRole::kEmbedding}));
}

}  // namespace

Result<std::vector<float>> base_rows(TensorSource& base, size_t index, uint64_t first, uint64_t n) {
  const TensorInfo& info = base.tensors()[index];
  if (!can_dequantize(info.type)) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("tensor {} is of type {}, which cannot be read here", quoted(info.name),
                            name_of(info.type)));
  }
  const uint64_t n_cols = info.shape.back();
  const uint64_t n_rows = info.n_elements() / n_cols;
  CHECK(first + n <= n_rows);
  const uint64_t row_bytes = info.n_bytes / n_rows;
  TRY_ASSIGN(const auto bytes, base.read_range(index, first * row_bytes, n * row_bytes));
  const auto order = base.gather(index);
  std::vector<float> values(n * n_cols);
  std::vector<float> row(n_cols);
  for (uint64_t r = 0; r < n; ++r) {
    dequantize_row(info.type, bytes.data() + r * row_bytes, row);
    float* const out = values.data() + r * n_cols;
    const float scale = base.scale(index, (first + r) * info.shape[0] / n_rows);
    for (uint64_t c = 0; c < n_cols; ++c) out[order.empty() ? c : order[c]] = row[c] * scale;
  }
  return values;
}

void add_low_rank(const AdapterPair& pair, const LowRankFactors& factors, uint64_t first_row,
                  std::span<float> rows) {
  std::vector<double> sums(pair.n_cols);
  uint64_t row = first_row;
  for (; !rows.empty(); rows = rows.subspan(pair.n_cols), ++row) {
    std::ranges::fill(sums, 0.0);
    for (uint32_t r = 0; r < pair.rank; ++r) {
      const double factor = double{pair.scale} * factors.b[row * pair.rank + r];
      const float* a = factors.a.data() + r * pair.n_cols;
      for (uint64_t c = 0; c < pair.n_cols; ++c) sums[c] += factor * a[c];
    }
    for (uint64_t c = 0; c < pair.n_cols; ++c) rows[c] = static_cast<float>(rows[c] + sums[c]);
  }
}

float dora_scale(float magnitude, std::span<const float> row) {
  double sum = 0;
  for (const float value : row) sum += double{value} * value;
  return sum > 0 ? static_cast<float>(magnitude / std::sqrt(sum)) : 0.0f;
}

Result<std::vector<float>> dora_scales(const AdapterPair& pair, const LowRankFactors& factors,
                                       ModelSource& base) {
  CHECK(factors.magnitudes.size() == pair.n_rows);
  const auto index = find_tensor(base, pair.tensor);
  const uint64_t before = pair.part * pair.n_rows;
  if (!index || base.tensors()[*index].shape.back() != pair.n_cols ||
      base.tensors()[*index].n_elements() / pair.n_cols < before + pair.n_rows) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("'{}' has no '{}' with rows of {}: the adapter was made for another model",
                    base.label(), name_of(pair.tensor), pair.n_cols));
  }
  std::vector<float> scales;
  const uint64_t n_chunk = std::max<uint64_t>(1, kChunkBytes / sizeof(float) / pair.n_cols);
  while (scales.size() < pair.n_rows) {
    const uint64_t first = scales.size();
    const uint64_t n = std::min(n_chunk, pair.n_rows - first);
    TRY_ASSIGN(std::vector<float> rows, base_rows(base, *index, before + first, n));
    add_low_rank(pair, factors, first, rows);
    for (uint64_t r = 0; r < n; ++r) {
      scales.push_back(dora_scale(factors.magnitudes[first + r],
                                  std::span(rows).subspan(r * pair.n_cols, pair.n_cols)));
    }
  }
  base.release(*index);
  return scales;
}

}  // namespace kvik
