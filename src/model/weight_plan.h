#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "catalogue/model_config.h"
#include "catalogue/tensor_roles.h"
#include "format/model_source.h"

namespace kvik {

// Memory that a model's weights will take on a backend, computed from its tensor table alone.
struct WeightPlan {
  uint64_t n_bytes = 0;           // Model::weight_bytes() once the model is loaded
  std::vector<WeightKind> kinds;  // the different kinds of its matrices, each listed once
  // Type of the table that stays in the file (ModelSource::are_tables_in_file()), if there is one.
  std::optional<ElementType> table_in_file = {};
};

// Plans the weights of the source's model. Tensors that the model does not use take no memory.
// Errors: kUnsupported for an element type that the backend cannot compute with; names the tensor.
Result<WeightPlan> plan_weights(const ModelSource& source, const ModelConfig& config,
                                const Backend& backend);

// Returns the different kinds of all tensors that are matrices, each listed once.
std::vector<WeightKind> weight_kinds(std::span<const TensorInfo> tensors, const TensorTable& table);

}  // namespace kvik
