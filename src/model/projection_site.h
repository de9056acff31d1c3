#pragma once

#include <cstdint>

#include "backend/ops.h"

namespace kvik {

// Where a tensor of a model takes part in products: as some of the output columns of a packed
// matrix; of a stack, as those columns of each of its matrices.
struct ProjectionSite {
  const PackedMatrix* matrix = nullptr;
  uint32_t first_column = 0;
};

}  // namespace kvik
