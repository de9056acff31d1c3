#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/metadata.h"
#include "base/result.h"
#include "catalogue/model_config.h"
#include "catalogue/tensor_roles.h"
#include "format/model_source.h"
#include "tensor/element_type.h"

namespace kvik {

// The limits of a device for draft heads.
struct HeadLimits {
  std::function<bool(ElementType)> can_compute;  // with matrices of the type
  uint32_t max_head_dim = UINT32_MAX;
};

// A tensor of a draft head: its place in the model with the head, and its name in the head's file.
struct HeadTensor {
  TensorId id;
  std::string name;
};

// A draft head that is stored apart from its model, prepared to be joined with it.
struct DraftHead {
  std::unique_ptr<ModelSource> source;  // has the tensors under their names in the model
  ModelConfig config;                   // of the model with the head
  Metadata keys;
  std::string prefix;  // of the keys that the model gets
  // All tensors that such a head may have.
  std::vector<HeadTensor> tensors;
};

// Gives the tensors of a head the names that they have in the model, in the given order, and floats
// where GGUF files have floats. `indices` are those of the tensors in the source.
void rename_tensors(ModelSource& source, const std::vector<TensorId>& ids,
                    const std::vector<size_t>& indices);

// Returns the model with the head, without MTP layers of its own. Reads all tensors of the head.
// Errors: kCorrupt for a tensor that is missing, has another shape or a number that is not finite,
// kUnsupported for a type or a size that the device does not compute; `model` is unchanged then.
Result<std::unique_ptr<ModelSource>> join_head(std::unique_ptr<ModelSource>& model, DraftHead head,
                                               const HeadLimits& limits);

}  // namespace kvik
