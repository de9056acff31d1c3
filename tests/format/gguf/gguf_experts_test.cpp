#include "format/gguf/gguf_experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "format/gguf/gguf.h"
#include "format/gguf_writer.h"

namespace kvik {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> filled(float value) { return std::vector<float>(64, value); }

Result<std::unique_ptr<ModelSource>> opened(const GgufWriter& file, std::vector<std::byte>& bytes) {
  bytes = file.bytes();
  TRY_ASSIGN(auto source, open_gguf_bytes("m.gguf", bytes));
  TRY(stack_gguf_experts(*source));
  return source;
}

TEST(GgufExperts, a_tensor_for_each_expert_becomes_one_for_all_of_a_layer) {
  GgufWriter file;
  file.key("general.architecture", "llama");
  file.tensor("blk.0.ffn_gate.1.weight", {2, 32}, filled(1));  // in any order
  file.tensor("blk.0.ffn_gate.0.weight", {2, 32}, filled(0));
  file.tensor("blk.0.ffn_gate_inp.weight", {2, 32}, filled(5));
  std::vector<std::byte> bytes;
  const auto source = opened(file, bytes);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_TRUE((*source)->metadata().contains("general.architecture"));
  ASSERT_EQ((*source)->tensors().size(), 2u);
  const auto index = (*source)->find("blk.0.ffn_gate_exps.weight");
  ASSERT_TRUE(index);
  EXPECT_THAT((*source)->tensors()[*index].shape, ElementsAre(2, 2, 32));
  constexpr uint64_t kExpertBytes = 64 * sizeof(float);
  for (size_t expert = 0; expert < 2; ++expert) {
    const auto range = (*source)->read_range(*index, expert * kExpertBytes, kExpertBytes);
    ASSERT_TRUE(range && range->size() == kExpertBytes);
    float in_range = -1, in_whole = -1;
    std::memcpy(&in_range, range->data(), sizeof(float));
    const auto whole = (*source)->read(*index);
    ASSERT_TRUE(whole && whole->size() == 2 * kExpertBytes);
    std::memcpy(&in_whole, whole->data() + expert * kExpertBytes, sizeof(float));
    EXPECT_EQ(in_range, static_cast<float>(expert));
    EXPECT_EQ(in_whole, in_range);
  }
}

TEST(GgufExperts, any_other_file_stays_as_it_is) {
  GgufWriter file;
  for (const char* name : {"blk.0.ffn_gate.weight", "blk.0.ffn_gate.x.weight", "ffn_up.1.weight",
                           "blk.0.ffn_down..weight"}) {
    file.tensor(name, {2, 32}, filled(1));
  }
  std::vector<std::byte> bytes;
  const auto source = opened(file, bytes);
  ASSERT_TRUE(source);
  EXPECT_EQ((*source)->tensors().size(), 4u);
  EXPECT_EQ((*source)->tensors()[1].name, "blk.0.ffn_gate.x.weight");
}

TEST(GgufExperts, a_missing_or_different_expert_is_named) {
  for (const char* name : {"blk.0.ffn_up.2.weight", "blk.0.ffn_up.18446744073709551615.weight"}) {
    GgufWriter file;
    file.tensor("blk.0.ffn_up.0.weight", {2, 32}, filled(0));
    file.tensor(name, {2, 32}, filled(0));
    std::vector<std::byte> bytes;
    const auto source = opened(file, bytes);
    ASSERT_FALSE(source);
    EXPECT_THAT(source.error().message, HasSubstr(name));
  }
  GgufWriter shapes;
  shapes.tensor("blk.0.ffn_up.0.weight", {2, 32}, filled(0));
  shapes.tensor("blk.0.ffn_up.1.weight", {1, 64}, filled(0));
  std::vector<std::byte> bytes;
  EXPECT_FALSE(opened(shapes, bytes));
  GgufWriter types;
  types.tensor("blk.0.ffn_up.0.weight", {2, 32}, filled(0));
  types.tensor("blk.0.ffn_up.1.weight", {2, 32}, filled(0), ElementType::kQ8_0);
  EXPECT_FALSE(opened(types, bytes));
}

}  // namespace
}  // namespace kvik
