#include "format/hf/tensor_shapes.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "format/quoted.h"
#include "tensor/blocks.h"

namespace kvik::hf {

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
  return kda && kda->bound < 0 ? Arrangement::kExp : Arrangement::kNegativeExp;
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

}  // namespace kvik::hf
