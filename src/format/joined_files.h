#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "format/model_source.h"

namespace kvik {

// Returns the tensors of all pieces, in order, as one source with the label and metadata of the
// first. Requires at least one piece. Errors: kCorrupt if a tensor occurs twice.
Result<std::unique_ptr<ModelSource>> join_files(std::vector<std::unique_ptr<ModelSource>> pieces);

}  // namespace kvik
