#pragma once

#include <memory>

#include "base/result.h"
#include "format/adapter/adapter_source.h"
#include "format/model_source.h"

namespace kvik {

// Merges an adapter into a model; the merged tensors are made when they are read. Updated tensors
// become f32, and sums are computed in f64. Tensors that the adapter saves whole replace those of
// the model. A tied head becomes a tensor of its own if the adapter changes the head or the
// embedding. Reading a merged tensor has the errors of reading the model and the adapter, and
// kUnsupported for an element type that cannot be dequantized.
void merge_adapter(ModelSource& source, std::unique_ptr<AdapterSource> adapter);

}  // namespace kvik
