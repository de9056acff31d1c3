#pragma once

#include <span>
#include <string_view>

#include "backend/cpu/isa/kernels.h"
#include "backend/cpu/low_rank/low_rank_kernels.h"
#include "backend/cpu/matmul/matmul_kernels.h"
#include "backend/cpu/state/state_kernels.h"

namespace kvik::cpu {

// One instruction set's kernels, and whether this machine has it.
struct InstructionSet {
  std::string_view name;
  bool (*runs_here)();     // processor and operating system
  bool (*is_preferred)();  // over all slower ones, where it runs
  const RowKernels& rows;
  const AttentionKernels& attention;
  const StateKernels& state;
  const LowRankKernels& low_rank;
  const MatmulKernels matmul;
};

// All in this binary, slowest first.
std::span<const InstructionSet> instruction_sets();

// The set of that name, or the best for this machine where the name is empty; nullptr where there
// is no such set or it does not run here.
const InstructionSet* find_instruction_set(std::string_view name);

}  // namespace kvik::cpu
