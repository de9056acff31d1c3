#pragma once

#include <memory>

#include "base/result.h"
#include "format/adapter/adapter_source.h"
#include "format/model_source.h"

namespace kvik {

// Merges an adapter into a model. Changed tensors become f32; sums are computed in f64. Tensors
// that the adapter saves whole replace the model's. A tied head becomes a tensor of its own if only
// one of embedding and head changes. Errors of reading: those of both, and kUnsupported for an
// unsupported element type.
void merge_adapter(ModelSource& source, std::unique_ptr<AdapterSource> adapter);

}  // namespace kvik
