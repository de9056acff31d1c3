#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "format/hf/config.h"
#include "format/model_source.h"

namespace kvik::hf {

// Returns the tensors of a folder with those of its two Dense modules of sentence-transformers,
// named as in a GGUF file, and adds their dimensions to the metadata of `config`; the tensors
// unchanged if there are no such modules. Errors: kUnsupported for another number of modules, one
// before Pooling, a bias or an activation, kCorrupt for a missing file.
Result<std::unique_ptr<ModelSource>> with_dense_modules(const std::string& folder,
                                                        std::unique_ptr<ModelSource> source,
                                                        FolderConfig& config);

}  // namespace kvik::hf
