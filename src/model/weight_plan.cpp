#include "model/weight_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "catalogue/tensor_roles.h"

namespace kvik {

std::vector<WeightKind> weight_kinds(std::span<const TensorInfo> tensors) {
  std::vector<WeightKind> kinds;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.shape.size() < 2) continue;
    const WeightKind kind{tensor.type, static_cast<uint32_t>(tensor.shape.back()),
                          tensor.shape.size() > 2};
    if (std::ranges::count(kinds, kind) == 0) kinds.push_back(kind);
  }
  return kinds;
}

Result<WeightPlan> plan_weights(const ModelSource& source, const Backend& backend) {
  WeightPlan plan{.n_bytes = 0, .kinds = weight_kinds(source.tensors())};
  for (const TensorInfo& tensor : source.tensors()) {
    const auto id = tensor_named(tensor.name);
    const bool is_row = id && kind_of(id->role) == TensorKind::kRouting;  // of a product
    const bool is_stack = tensor.shape.size() == 3;                       // of experts
    if (tensor.shape.size() < 2 && !is_row) {
      plan.n_bytes += tensor.n_elements() * sizeof(float);  // vectors are held as f32
      continue;
    }
    if (!backend.can_compute(tensor.type)) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("{}: tensor '{}' is of type {}, which cannot be computed with",
                              source.label(), tensor.name, name_of(tensor.type)));
    }
    const uint64_t n_cols = tensor.shape.back();
    const uint64_t n_rows = tensor.shape.size() < 2 ? 1 : tensor.shape[tensor.shape.size() - 2];
    plan.n_bytes +=
        backend.packed_bytes(tensor.type, n_rows, n_cols) * (is_stack ? tensor.shape[0] : 1);
  }
  return plan;
}

}  // namespace kvik
