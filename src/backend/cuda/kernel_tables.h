#pragma once

#include "backend/cuda/attention/attention_kernels.h"
#include "backend/cuda/low_rank/low_rank_kernels.h"
#include "backend/cuda/matmul/matmul_kernels.h"
#include "backend/cuda/route/route_kernels.h"
#include "backend/cuda/rows/rows_kernels.h"
#include "backend/cuda/state/state_kernels.h"

namespace kvik::cuda {

// All kernels of a device. The counterpart of InstructionSet in backend/cpu/isa.h.
struct KernelTables {
  const RowKernels& rows;
  const MatmulKernels& matmul;
  const AttentionKernels& attention;
  const StateKernels& state;
  const LowRankKernels& low_rank;
  const RouteKernels& route;
};

}  // namespace kvik::cuda
