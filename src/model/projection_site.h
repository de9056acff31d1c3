#pragma once

#include <cstdint>

#include "backend/backend.h"

namespace kvik {

// Location of a tensor in a packed matrix: some of its output columns. In a stack of matrices
// (experts, heads), the same columns of each of them.
struct ProjectionSite {
  const PackedMatrix* matrix = nullptr;
  uint32_t first_column = 0;
  // Number of rows of a block, if the tensor's rows alternate between blocks of two kinds
  // (TensorLoader::Turns). The columns of the first kind then begin at first_column, those of the
  // second kind at second_column. 0: the rows do not alternate.
  uint32_t block_rows = 0;
  uint32_t second_column = 0;
};

}  // namespace kvik
