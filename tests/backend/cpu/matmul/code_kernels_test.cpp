#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cpu/isa.h"
#include "backend/cpu/matmul/matmul.h"
#include "backend/host_memory.h"
#include "backend/products.h"
#include "backend/random_matrix.h"
#include "tensor/code_blocks.h"

namespace kvik {
namespace {

using namespace testing;

cpu::MatmulKernels with(cpu::MatmulKernels kernels, const cpu::WeightRows& rows) {
  for (const cpu::WeightKernels& row : std::span(rows.begin, rows.n)) {
    kernels.by_type[static_cast<size_t>(row.type)] = row;
  }
  return kernels;
}

// A processor with VBMI never runs the kernels that gather, so other tests do not reach them.
TEST(CodeKernels, lookups_in_registers_have_the_bits_of_gathers) {
  const auto sets = cpu::instruction_sets();
  const auto avx512 = std::ranges::find(sets, "avx512", &cpu::InstructionSet::name);
  if (!avx512->runs_here() || !__builtin_cpu_supports("avx512vbmi")) {
    GTEST_SKIP() << "this processor has no AVX-512 VBMI";
  }
  HostMemory memory;
  ThreadPool pool(1);
  const cpu::MatmulKernels gathers = with(avx512->matmul, cpu::avx512::kCodeTypes);
  const cpu::MatmulKernels lookups = with(avx512->matmul, cpu::avx512vbmi::kCodeTypes);
  const auto backend = backend_of("avx512", 1);
  for (const BlockFormat& format : kCodeBlocks) {
    const FileMatrix w = random_matrix(format.type, 67, 1024, 5);
    const auto packed = pack(*backend, {w});
    for (const uint32_t m : {1u, 6u, 9u, 40u}) {
      OwnedRows x(memory, m, 1024, random_floats(size_t{m} * 1024, m));
      OwnedRows a(memory, m, 67), b(memory, m, 67);
      const auto& panels = static_cast<const PanelMatrix&>(*packed);
      cpu::Matmul(gathers, memory, pool).run(x.rows, panels, a.rows, cpu::MatmulInto::kOverwrite);
      cpu::Matmul(lookups, memory, pool).run(x.rows, panels, b.rows, cpu::MatmulInto::kOverwrite);
      EXPECT_TRUE(same_bytes(a.values(), b.values())) << name_of(format.type) << " " << m;
    }
  }
}

}  // namespace
}  // namespace kvik
