#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "catalogue/tensor_roles.h"
#include "format/model_source.h"

namespace kvik {

// What a model's weights will be in the backend's memory, from its tensor table alone.
struct WeightPlan {
  uint64_t n_bytes = 0;           // Model::weight_bytes() of the model, once loaded
  std::vector<WeightKind> kinds;  // of its matrices, each once
};

// Errors: kUnsupported for an element type that cannot be computed with; names the tensor.
// `table` is that of the source's model: what it leaves alone takes no memory.
Result<WeightPlan> plan_weights(const ModelSource& source, const TensorTable& table,
                                const Backend& backend);

// Of all tensors that are matrices, each kind once.
std::vector<WeightKind> weight_kinds(std::span<const TensorInfo> tensors, const TensorTable& table);

}  // namespace kvik
