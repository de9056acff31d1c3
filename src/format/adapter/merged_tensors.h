#pragma once

#include <memory>

#include "base/result.h"
#include "format/adapter/adapter_source.h"
#include "format/model_source.h"

namespace kvik {

// Adds to a model what an adapter adds to it, as f32 where it adds something; the sums are taken in
// f64. The tensors that the adapter saves whole take the place of the model's. A head that is the
// embedding becomes a tensor of its own where only one of the two changes. Errors of reading: those
// of both, and kUnsupported for an element type that cannot be read.
void merge_adapter(ModelSource& source, std::unique_ptr<AdapterSource> adapter);

}  // namespace kvik
