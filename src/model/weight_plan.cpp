#include "model/weight_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/adapter.h"

namespace kvik {
namespace {

TensorKind kind_of(const TensorInfo& tensor) {
  const auto id = tensor_named(tensor.name);
  return id ? kind_of(id->role) : TensorKind::kMatrix;
}

// Returns whether the tensor is packed as a matrix. Vectors are stored as f32, except for those
// that are one row of a product.
bool is_multiplied(const TensorInfo& tensor) {
  const TensorKind kind = kind_of(tensor);
  return kind == TensorKind::kRouting || (tensor.shape.size() > 1 && !is_list(kind));
}

WeightUse use_of(const TensorInfo& tensor) {
  if (kind_of(tensor) == TensorKind::kHeads) return WeightUse::kHeads;
  return tensor.shape.size() > 2 ? WeightUse::kExperts : WeightUse::kRows;
}

// Returns the bytes of the zeros that are stored between the taps of the n-grams' convolution.
uint64_t gap_bytes(const ModelConfig& config) {
  if (!config.ngrams) return 0;
  const uint64_t n_gaps = config.ngrams->n_taps() - config.ngrams->kernel_size;
  return n_gaps * config.hyper->n * config.model_dim * sizeof(float);
}

}  // namespace

std::vector<WeightKind> weight_kinds(std::span<const TensorInfo> tensors,
                                     const TensorTable& table) {
  std::vector<WeightKind> kinds;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.shape.size() < 2 || !is_multiplied(tensor)) continue;
    if (table.may_be_unused(tensor.name)) continue;
    const WeightKind kind{tensor.type, static_cast<uint32_t>(tensor.shape.back()), use_of(tensor)};
    if (std::ranges::count(kinds, kind) == 0) kinds.push_back(kind);
  }
  return kinds;
}

Result<WeightPlan> plan_weights(const ModelSource& source, const ModelConfig& config,
                                const Backend& backend) {
  const TensorTable table(config);
  uint64_t own_bytes = 0;
  if (config.adapter_switch) {
    const auto n_bytes = Adapter::own_bytes(source, config, backend);
    if (!n_bytes) {
      return fail(n_bytes.error().code,
                  fmt::format("{}: {}", source.label(), n_bytes.error().message));
    }
    own_bytes = *n_bytes;
  }
  WeightPlan plan{.n_bytes = gap_bytes(config) + own_bytes,
                  .kinds = weight_kinds(source.tensors(), table)};
  for (const TensorInfo& tensor : source.tensors()) {
    if (table.may_be_unused(tensor.name)) continue;
    if (kind_of(tensor) == TensorKind::kLoraFactor) continue;  // a part of own_bytes
    if (!is_multiplied(tensor)) {
      plan.n_bytes += tensor.n_elements() * sizeof(float);
      continue;
    }
    if (!backend.can_compute(tensor.type)) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("{}: tensor '{}' is of type {}, which {} does not compute with, "
                              "expected one of {}",
                              source.label(), tensor.name, name_of(tensor.type), backend.name(),
                              computable_types(backend)));
    }
    const auto id = tensor_named(tensor.name);
    if (source.are_tables_in_file() && id && id->role == TensorRole::kPerLayerEmbedding) {
      plan.table_in_file = tensor.type;
      continue;
    }
    const uint64_t n_cols = tensor.shape.back();
    const uint64_t n_rows = tensor.shape.size() < 2 ? 1 : tensor.shape[tensor.shape.size() - 2];
    const bool is_stack = tensor.shape.size() == 3;  // of experts or heads
    plan.n_bytes +=
        backend.packed_bytes(tensor.type, n_rows, n_cols) * (is_stack ? tensor.shape[0] : 1);
  }
  return plan;
}

}  // namespace kvik
