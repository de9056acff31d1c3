#pragma once

#include <span>
#include <string_view>

#include "backend/cpu/indexer/indexer_kernels.h"
#include "backend/cpu/isa/kernels.h"
#include "backend/cpu/low_rank/low_rank_kernels.h"
#include "backend/cpu/matmul/matmul_kernels.h"
#include "backend/cpu/state/state_kernels.h"

namespace kvik::cpu {

// The kernels of an instruction set, and functions that say whether to use it on this machine.
struct InstructionSet {
  std::string_view name;
  bool (*runs_here)();  // returns whether the processor and operating system support it
  // Returns whether the set, if supported, is faster than those listed before it.
  bool (*is_preferred)();
  const RowKernels& rows;
  const AttentionKernels& attention;
  const StateKernels& state;
  const LowRankKernels& low_rank;
  const IndexerKernels& indexer;
  const MatmulKernels matmul;
};

// Returns all instruction sets that are compiled in, slowest first.
std::span<const InstructionSet> instruction_sets();

// Returns the instruction set of that name or, if the name is empty, the best one for this machine.
// Returns nullptr if there is no such set or this machine does not support it.
const InstructionSet* find_instruction_set(std::string_view name);

}  // namespace kvik::cpu
