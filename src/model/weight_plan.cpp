#include "model/weight_plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvik {

std::vector<WeightKind> weight_kinds(std::span<const TensorInfo> tensors) {
  std::vector<WeightKind> kinds;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.shape.size() != 2) continue;
    const WeightKind kind{tensor.type, static_cast<uint32_t>(tensor.shape[1])};
    if (std::ranges::count(kinds, kind) == 0) kinds.push_back(kind);
  }
  return kinds;
}

Result<WeightPlan> plan_weights(const ModelSource& source, const Backend& backend) {
  WeightPlan plan{.n_bytes = 0, .kinds = weight_kinds(source.tensors())};
  for (const TensorInfo& tensor : source.tensors()) {
    if (tensor.shape.size() != 2) {
      plan.n_bytes += tensor.n_elements() * sizeof(float);  // vectors are held as f32
      continue;
    }
    if (!backend.can_compute(tensor.type)) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("{}: tensor '{}' is of type {}, which cannot be computed with",
                              source.label(), tensor.name, name_of(tensor.type)));
    }
    plan.n_bytes += backend.packed_bytes(tensor.type, tensor.shape[0], tensor.shape[1]);
  }
  return plan;
}

}  // namespace kvik
