#include "format/gguf/gguf_scales.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "format/gguf/fused_experts.h"
#include "format/gguf/gguf.h"
#include "format/gguf_writer.h"
#include "format/synthetic/synthetic.h"

namespace kvik {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<float> kMatrix(2 * 64, 1.0f);

std::vector<std::string> names_in(const ModelSource& source) {
  std::vector<std::string> names;
  for (const TensorInfo& info : source.tensors()) names.push_back(info.name);
  return names;
}

// Opens the file as open_gguf() does. `bytes` holds the file and must outlive the source.
Result<std::unique_ptr<ModelSource>> opened(const GgufWriter& file, std::vector<std::byte>& bytes) {
  bytes = file.bytes();
  TRY_ASSIGN(auto source, open_gguf_bytes("m.gguf", bytes));
  TRY(take_gguf_scales(*source));
  TRY(split_gguf_experts(*source));
  return source;
}

// Returns the scales after reading the tensor.
std::vector<float> scales_in(ModelSource& source, std::string_view name) {
  const size_t index = source.find(name).value();
  EXPECT_TRUE(source.read(index));
  const auto scales = source.scales(index);
  return {scales.begin(), scales.end()};
}

TEST(GgufScales, a_scale_tensor_becomes_the_factor_of_its_nvfp4_matrix) {
  GgufWriter file;
  file.tensor("blk.0.attn_q.scale", {1}, std::vector<float>{0.25f});
  file.tensor("blk.0.attn_q.input_scale", {1}, std::vector<float>{7.0f});
  file.tensor("blk.0.attn_q.weight", {2, 64}, kMatrix, ElementType::kNvFp4);
  file.tensor("blk.0.attn_k.weight", {2, 64}, kMatrix, ElementType::kNvFp4);
  file.tensor("blk.0.attn_v.weight", {2, 64}, kMatrix, ElementType::kQ8_0);
  std::vector<std::byte> bytes;
  const auto source = opened(file, bytes);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_THAT(names_in(**source),
              ElementsAre("blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight"));
  EXPECT_THAT(scales_in(**source, "blk.0.attn_q.weight"), ElementsAre(0.25f));
  EXPECT_THAT(scales_in(**source, "blk.0.attn_k.weight"), IsEmpty());
  (*source)->release(0);
  EXPECT_THAT((*source)->scales(0), IsEmpty());
}

TEST(GgufScales, experts_have_one_each_and_so_have_the_halves_of_a_stack) {
  GgufWriter file;
  const std::vector<float> stack(3 * 2 * 64, 1.0f);
  file.tensor("blk.0.ffn_gate_up_exps.weight", {3, 2, 64}, stack, ElementType::kNvFp4);
  file.tensor("blk.0.ffn_gate_up_exps.scale", {3}, std::vector<float>{1, 2, 3});
  std::vector<std::byte> bytes;
  const auto source = opened(file, bytes);
  ASSERT_TRUE(source) << source.error().message;
  for (const char* name : {"blk.0.ffn_gate_exps.weight", "blk.0.ffn_up_exps.weight"}) {
    EXPECT_THAT(scales_in(**source, name), ElementsAre(1, 2, 3)) << name;
    const size_t index = (*source)->find(name).value();
    EXPECT_EQ((*source)->scale(index, 1), 2.0f);
    (*source)->release(index);
    const uint64_t n_bytes = (*source)->tensors()[index].n_bytes / 3;
    EXPECT_TRUE((*source)->read_range(index, 2 * n_bytes, n_bytes));
    EXPECT_EQ((*source)->scale(index, 2), 3.0f);
  }
}

TEST(GgufScales, scales_of_other_types_stay_tensors) {
  GgufWriter file;
  file.tensor("blk.0.attn_q.scale", {1}, std::vector<float>{0.25f});
  file.tensor("blk.0.attn_q.weight", {2, 64}, kMatrix, ElementType::kQ8_0);
  std::vector<std::byte> bytes;
  const auto source = opened(file, bytes);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ((*source)->tensors().size(), 2u);
}

TEST(GgufScales, a_name_that_means_something_else_in_the_model_keeps_its_meaning) {
  const TensorInfo down = {"blk.0.ffn_down_exps.weight", ElementType::kNvFp4, {2, 64, 64}, 0};
  const auto has_scales = [&](const char* model) {
    const auto source = make_synthetic(model);
    return source && gguf_scales_of(down, (*source)->metadata()).has_value();
  };
  EXPECT_FALSE(has_scales("synthetic:test-gemma4-moe:f32"));  // these scales belong to its router
  EXPECT_TRUE(has_scales("synthetic:test-qwen3moe:f32"));
  EXPECT_EQ(gguf_scales_of(down, {})->name, "blk.0.ffn_down_exps.scale");
}

TEST(GgufScales, those_that_cannot_be_are_refused_by_name) {
  GgufWriter file;
  file.tensor("blk.0.attn_q.scale", {3}, std::vector<float>(3, 1.0f));
  file.tensor("blk.0.attn_q.weight", {2, 64}, kMatrix, ElementType::kNvFp4);
  std::vector<std::byte> bytes;
  const auto source = opened(file, bytes);
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(source.error().message, HasSubstr("'blk.0.attn_q.scale' is of type f32 and shape "
                                                "[3], expected f32 and [1]"));

  GgufWriter infinite;
  infinite.tensor("blk.0.attn_q.scale", {1}, std::vector<float>{INFINITY});
  infinite.tensor("blk.0.attn_q.weight", {2, 64}, kMatrix, ElementType::kNvFp4);
  const auto second = opened(infinite, bytes);
  ASSERT_TRUE(second);
  const auto read = (*second)->read(0);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, HasSubstr("'blk.0.attn_q.scale' holds inf"));
}

}  // namespace
}  // namespace kvik
