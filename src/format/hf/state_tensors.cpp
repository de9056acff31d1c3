#include "format/hf/state_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>

#include "tensor/blocks.h"

namespace kvik::hf {
namespace {

using enum TensorRole;

std::unexpected<Error> wrong_shape(const ModelSource& source, size_t index,
                                   const std::vector<uint64_t>& expected) {
  return fail(
      ErrorCode::kCorrupt,
      fmt::format("tensor '{}' has the shape [{}], expected [{}]", source.tensors()[index].name,
                  fmt::join(source.tensors()[index].shape, ", "), fmt::join(expected, ", ")));
}

// Returns the value heads in the order of a GGUF file, by their indices in the folder.
std::vector<uint32_t> value_head_order(const DeltaConfig& d) {
  std::vector<uint32_t> order;
  const uint32_t per_key_head = d.n_value_heads / d.n_key_heads;
  for (uint32_t i = 0; i < d.n_value_heads; ++i) {
    order.push_back(i % d.n_key_heads * per_key_head + i / d.n_key_heads);
  }
  return order;
}

void add_rows(ArrangedTensor& tensor, size_t index, uint64_t row_bytes,
              const std::vector<RowRange>& rows) {
  for (const RowRange& stretch : rows) {
    tensor.pieces.push_back({index, stretch.first * row_bytes, stretch.n * row_bytes});
  }
}

// Makes the tensor f32, and computes the factor of the decay from its logarithm.
void make_floats(ArrangedTensor& tensor, TensorRole role) {
  const ElementType type = tensor.info.type;
  if (traits(type).block_elements != 1) return;  // rejected when it is loaded
  const bool is_decay = role == kStateDecay;
  if (is_decay || type != ElementType::kF32) {
    tensor.arrangement = is_decay ? Arrangement::kNegativeExp : Arrangement::kFloats;
  }
  tensor.info.type = ElementType::kF32;
  tensor.info.n_bytes = tensor.info.n_elements() * sizeof(float);
}

ArrangedTensor begin(const ModelSource& source, size_t index, const TensorSpec& spec) {
  ArrangedTensor tensor;
  tensor.info = source.tensors()[index];
  tensor.info.name = name_of(spec.id);
  tensor.info.shape = spec.shape;
  return tensor;
}

}  // namespace

std::vector<RowRange> rows_of_state(TensorRole role, const DeltaConfig& d) {
  if (d.order == ValueHeadOrder::kGrouped) return {};
  std::vector<RowRange> rows;
  const auto add_heads = [&](uint64_t first, uint64_t n_rows) {
    for (const uint32_t head : value_head_order(d)) rows.push_back({first + head * n_rows, n_rows});
  };
  const uint64_t n_keys = uint64_t{2} * d.keys_dim();
  switch (role) {
    case kQkv:
    case kStateConv:
      rows.push_back({0, n_keys});
      add_heads(n_keys, d.value_dim);
      break;
    case kOutputGate:
    case kStateOutput:
      add_heads(0, d.value_dim);
      break;
    case kStateBeta:
    case kStateAlpha:
    case kStateStepBias:
    case kStateDecay:
      add_heads(0, 1);
      break;
    default:
      break;
  }
  return rows;
}

std::vector<RowRange> rows_in_qkvz(TensorRole role, const DeltaConfig& d) {
  const uint64_t values = uint64_t{d.n_value_heads / d.n_key_heads} * d.value_dim;
  const uint64_t per_head = uint64_t{2} * d.key_dim + 2 * values;
  std::vector<RowRange> rows;
  const auto add_part = [&](uint64_t first, uint64_t n) {
    for (uint64_t head = 0; head < d.n_key_heads; ++head) {
      rows.push_back({head * per_head + first, n});
    }
  };
  if (role == kOutputGate) {
    add_part(uint64_t{2} * d.key_dim + values, values);
  } else {
    add_part(0, d.key_dim);
    add_part(d.key_dim, d.key_dim);
    add_part(uint64_t{2} * d.key_dim, values);
  }
  return rows;
}

Result<ArrangedTensor> state_tensor(const ModelSource& source, size_t index, const TensorSpec& spec,
                                    const DeltaConfig& d) {
  const TensorRole role = spec.id.role;
  const TensorInfo& info = source.tensors()[index];
  // Convolution weights have an additional axis of size 1.
  if (info.shape.empty() || info.shape.front() != spec.shape.front() ||
      n_elements_of(info.shape) != n_elements_of(spec.shape)) {
    return wrong_shape(source, index, spec.shape);
  }
  ArrangedTensor tensor = begin(source, index, spec);
  const std::vector<RowRange> stretches = rows_of_state(role, d);
  if (stretches.empty()) {
    tensor.pieces = {{index, 0, info.n_bytes}};
  } else if (role == kStateOutput) {
    if (d.value_dim % traits(info.type).block_elements != 0 || !source.gather(index).empty()) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("tensor '{}' is of type {}, whose columns cannot be put into the "
                              "order of value heads of {}",
                              info.name, name_of(info.type), d.value_dim));
    }
    tensor.pieces = {{index, 0, info.n_bytes}};
    tensor.arrangement = Arrangement::kPermutedColumns;
    tensor.order = value_head_order(d);
  } else {
    add_rows(tensor, index, info.n_bytes / spec.shape.front(), stretches);
  }
  if (kind_of(role) != TensorKind::kMatrix) make_floats(tensor, role);
  return tensor;
}

Result<ArrangedTensor> split_qkvz(const ModelSource& source, size_t index, const TensorSpec& spec,
                                  const DeltaConfig& d) {
  const TensorInfo& info = source.tensors()[index];
  const uint64_t values = uint64_t{d.n_value_heads / d.n_key_heads} * d.value_dim;
  const uint64_t per_head = uint64_t{2} * d.key_dim + 2 * values;
  const std::vector<uint64_t> expected = {d.n_key_heads * per_head, spec.shape[1]};
  if (info.shape != expected) return wrong_shape(source, index, expected);
  ArrangedTensor tensor = begin(source, index, spec);
  const uint64_t row_bytes = info.n_bytes / info.shape[0];
  tensor.info.n_bytes = row_bytes * spec.shape[0];
  add_rows(tensor, index, row_bytes, rows_in_qkvz(spec.id.role, d));
  return tensor;
}

}  // namespace kvik::hf
