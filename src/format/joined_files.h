#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "format/model_source.h"

namespace kvik {

// The tensors of all pieces, in order, as one source with the first one's label and metadata. At
// least one piece. Error: kCorrupt where a tensor is in two of them.
Result<std::unique_ptr<ModelSource>> join_files(std::vector<std::unique_ptr<ModelSource>> pieces);

}  // namespace kvik
