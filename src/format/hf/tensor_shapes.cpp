#include "format/hf/tensor_shapes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "format/quoted.h"
#include "tensor/blocks.h"

namespace kvik::hf {
namespace {

constexpr uint64_t kComparedBytes = uint64_t{1} << 20;

}  // namespace

void give_shape(const TensorSpec& spec, TensorInfo& info) {
  const TensorKind kind = kind_of(spec.id.role);
  const bool is_row = (kind == TensorKind::kRouting || kind == TensorKind::kBias) &&
                      spec.shape.size() == 1 && info.shape.size() == 2 && info.shape[0] == 1;
  const bool is_conv_kernel = kind == TensorKind::kConvKernel && !info.shape.empty() &&
                              info.shape.front() == spec.shape.front();
  const bool is_vector =
      info.shape.size() == 1 &&
      (kind == TensorKind::kConvKernel || kind == TensorKind::kDecay || kind == TensorKind::kNorm);
  const bool is_decay = kind == TensorKind::kDecay;
  if (!is_row && !is_conv_kernel && !is_vector && !is_decay) return;
  if (n_elements_of(spec.shape) == info.n_elements()) info.shape = spec.shape;
}

bool is_mask(const TensorInfo& info) {
  const std::string_view name = info.name;
  return name.ends_with(".masked_bias") || (name.ends_with(".bias") && info.shape.size() == 4);
}

Arrangement arrangement_of_decay(const LayerConfig& layer) {
  const auto* kda = std::get_if<KdaConfig>(&layer.mixer);
  return kda && !kda->has_negative_factors ? Arrangement::kExp : Arrangement::kNegativeExp;
}

void leave_out_rows(uint32_t n_rows, ArrangedTensor& tensor) {
  TensorInfo& info = tensor.info;
  if (n_rows == 0 || info.shape.size() != 2 || info.shape[0] <= n_rows) return;
  const uint64_t n_bytes = info.n_bytes / info.shape[0] * n_rows;
  tensor.pieces.front().begin_byte += n_bytes;
  tensor.pieces.front().n_bytes -= n_bytes;
  info.n_bytes -= n_bytes;
  info.shape[0] -= n_rows;
}

void separate_qkv(const AttentionConfig& a, ArrangedTensor& tensor) {
  const TensorInfo& info = tensor.info;
  if (info.shape.empty() || info.shape[0] != a.qkv_dim()) return;  // the loader refuses it
  const uint64_t head_bytes = info.n_bytes / a.qkv_dim() * a.head_dim;
  const size_t input = tensor.pieces.front().tensor;
  tensor.pieces.clear();
  for (uint64_t part = 0; part < 3; ++part) {
    for (uint64_t head = 0; head < a.n_heads; ++head) {
      tensor.pieces.push_back({input, (3 * head + part) * head_bytes, head_bytes});
    }
  }
}

Result<void> transpose(std::string_view name, ArrangedTensor& tensor) {
  TensorInfo& info = tensor.info;
  if (info.shape.size() != 2 || traits(info.type).block_elements != 1) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("tensor {} is stored transposed, as {} with {} axes; expected two axes "
                            "of floats of 16 or 32 bits",
                            quoted(name), name_of(info.type), info.shape.size()));
  }
  tensor.head_dim = static_cast<uint32_t>(info.shape[0]);
  std::swap(info.shape[0], info.shape[1]);
  tensor.arrangement = Arrangement::kTransposed;
  return {};
}

Result<ArrangedTensor> selected_rows(const ModelSource& source, size_t matrix,
                                     std::span<const uint64_t> rows) {
  const TensorInfo& info = source.tensors()[matrix];
  const uint64_t largest = std::ranges::max(rows);
  if (info.shape.size() != 2 || largest >= info.shape[0]) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("tensor '{}' has the shape [{}], expected a row {}", info.name,
                            fmt::join(info.shape, ", "), largest));
  }
  const uint64_t row_bytes = info.n_bytes / info.shape[0];
  ArrangedTensor tensor;
  tensor.info = {.name = info.name,
                 .type = info.type,
                 .shape = {rows.size(), info.shape[1]},
                 .n_bytes = rows.size() * row_bytes};
  for (const uint64_t row : rows) tensor.pieces.push_back({matrix, row * row_bytes, row_bytes});
  return tensor;
}

Result<bool> are_equal(ModelSource& source, size_t first, size_t second) {
  const TensorInfo& a = source.tensors()[first];
  const TensorInfo& b = source.tensors()[second];
  if (a.type != b.type || a.shape != b.shape || a.shape.size() != 2) return false;
  const uint64_t row_bytes = a.n_bytes / a.shape[0];
  const uint64_t step = row_bytes * std::max<uint64_t>(1, kComparedBytes / row_bytes);
  for (uint64_t at = 0; at < a.n_bytes; at += step) {
    const uint64_t n = std::min(step, a.n_bytes - at);
    TRY_ASSIGN(const auto of_a, source.read_range(first, at, n));
    const std::vector<std::byte> copy(of_a.begin(), of_a.end());
    TRY_ASSIGN(const auto of_b, source.read_range(second, at, n));
    if (!std::ranges::equal(copy, of_b)) return false;
  }
  source.release(first);
  source.release(second);
  return true;
}

bool is_gate_or_up(TensorRole role) {
  using enum TensorRole;
  return role == kGate || role == kUp || role == kSharedGate || role == kSharedUp;
}

void store_floats(ArrangedTensor& tensor, Arrangement arrangement) {
  const ElementType type = tensor.info.type;
  // Types that cannot become f32 are rejected when they are loaded.
  if (traits(type).block_elements != 1 || !can_dequantize(type)) return;
  if (type != ElementType::kF32 || arrangement != Arrangement::kFloats) {
    tensor.arrangement = arrangement;
  }
  tensor.info.type = ElementType::kF32;
  tensor.info.n_bytes = tensor.info.n_elements() * sizeof(float);
}

void make_int32(ArrangedTensor& tensor) {
  if (tensor.info.type != ElementType::kI64) return;
  tensor.arrangement = Arrangement::kInt32;
  tensor.info.type = ElementType::kI32;
  tensor.info.n_bytes = tensor.info.n_elements() * sizeof(int32_t);
}

}  // namespace kvik::hf
