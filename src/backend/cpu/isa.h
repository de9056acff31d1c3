#pragma once

#include <span>
#include <string_view>

#include "backend/cpu/isa/kernels.h"
#include "backend/cpu/low_rank/low_rank_kernels.h"
#include "backend/cpu/matmul/matmul_kernels.h"
#include "backend/cpu/state/state_kernels.h"

namespace kvik::cpu {

// The kernels of an instruction set, and whether this machine supports it.
struct InstructionSet {
  std::string_view name;
  bool (*runs_here)();     // processor and operating system support it
  bool (*is_preferred)();  // preferred to all slower ones if supported
  const RowKernels& rows;
  const AttentionKernels& attention;
  const StateKernels& state;
  const LowRankKernels& low_rank;
  const MatmulKernels matmul;
};

// Returns all instruction sets compiled in, slowest first.
std::span<const InstructionSet> instruction_sets();

// Returns the set of that name, or the best one of this machine if the name is empty; nullptr if
// there is no such set or it is not supported.
const InstructionSet* find_instruction_set(std::string_view name);

}  // namespace kvik::cpu
