#include "backend/cpu/isa.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "backend/layout/panel_matrix.h"
#include "tensor/blocks.h"

namespace kvik {
namespace {

TEST(Isa, scalar_runs_everywhere_and_comes_first) {
  ASSERT_FALSE(cpu_isa_names().empty());
  EXPECT_EQ(cpu_isa_names().front(), "scalar");
}

TEST(Isa, a_forced_set_is_the_one_that_computes) {
  for (const std::string_view isa : cpu_isa_names()) {
    const auto backend = make_cpu_backend({1, std::string(isa)});
    ASSERT_TRUE(backend);
    EXPECT_EQ((*backend)->name(), "cpu/" + std::string(isa));
  }
}

TEST(Isa, the_default_is_a_set_of_this_machine_and_no_slower_than_avx512) {
  const cpu::InstructionSet* best = cpu::find_instruction_set("");
  ASSERT_NE(best, nullptr);
  EXPECT_TRUE(best->runs_here());
  const cpu::InstructionSet* avx512 = cpu::find_instruction_set("avx512");
  if (avx512 && !__builtin_cpu_is("amd")) {
    EXPECT_EQ(best->name, cpu::find_instruction_set("amx") ? "amx" : "avx512");
  }
}

TEST(Isa, an_unknown_set_is_refused_with_the_names_of_those_that_exist) {
  const auto backend = make_cpu_backend({1, "avx1024"});
  ASSERT_FALSE(backend);
  EXPECT_EQ(backend.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(backend.error().message.find("avx1024"), std::string::npos);
  for (const std::string_view isa : cpu_isa_names()) {
    EXPECT_NE(backend.error().message.find(isa), std::string::npos);
  }
}

TEST(Isa, every_set_multiplies_the_types_that_are_packed_and_those_are_the_ones_that_are_decoded) {
  for (size_t i = 0; i < kNumElementTypes; ++i) {
    const auto type = static_cast<ElementType>(i);
    EXPECT_EQ(can_pack(type), can_dequantize(type)) << name_of(type);
    for (const cpu::InstructionSet& set : cpu::instruction_sets()) {
      const cpu::WeightKernels& kernels = set.matmul.weights(type);
      EXPECT_EQ(kernels.multiply != nullptr, can_pack(type)) << set.name << name_of(type);
      if (!kernels.multiply) continue;
      EXPECT_NE(set.matmul.activations(kernels.format).pack, nullptr) << set.name << name_of(type);
    }
  }
}

TEST(Isa, absurd_numbers_of_threads_are_refused) {
  EXPECT_FALSE(make_cpu_backend({1025, ""}));
  EXPECT_TRUE(make_cpu_backend({0, ""}));
}

}  // namespace
}  // namespace kvik
