#pragma once

#include <memory>

#include "base/result.h"
#include "format/draft/joined_head.h"
#include "format/model_source.h"

namespace kvik {

// Returns whether the source is a GGUF file with only the MTP layers of a model, and copies of its
// embedding and output projection (llama.cpp's "mtp-MODEL.gguf").
bool is_mtp_file(const ModelSource& source);

// Returns whether the layers may be those of such a model: one of the same family, with as many
// layers of the same dimension, and no MTP head of its own. Keys that contradict the file's tensors
// are an error of with_mtp_file().
bool lacks_mtp_layers_of(const ModelSource& model, const ModelSource& file);

// Returns the model with the first MTP layer of the file as its MTP head. Errors: kUnsupported for
// layers of another model, or a family whose MTP layers are ignored, kCorrupt for such keys; those
// of join_head(). `model` is unchanged then.
Result<std::unique_ptr<ModelSource>> with_mtp_file(std::unique_ptr<ModelSource>& model,
                                                   std::unique_ptr<ModelSource> source,
                                                   const HeadLimits& limits);

}  // namespace kvik
