#pragma once

#include <cstdint>

#include "backend/backend.h"

namespace kvik {

// Where a tensor of a model takes part in products: as some of the output columns of a packed
// matrix; of a stack, as those columns of each of its matrices.
struct ProjectionSite {
  const PackedMatrix* matrix = nullptr;
  uint32_t first_column = 0;
  // Where the tensor's rows come in blocks of two kinds by turns (TensorLoader::Turns), rows of a
  // block, and where those of the second kind begin; those of the first at first_column. 0: no
  // turns.
  uint32_t block_rows = 0;
  uint32_t second_column = 0;
};

}  // namespace kvik
