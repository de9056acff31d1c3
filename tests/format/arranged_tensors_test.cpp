#include "format/arranged_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "format/synthetic/synthetic.h"
#include "support/memory_source.h"

namespace kvik {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kBytes = 2 * 4 * sizeof(float);  // of a matrix

// Three matrices [2, 4], each filled with its number, and a stack of them. `base` is borrowed.
struct Stack {
  MemorySource* base;
  std::unique_ptr<ModelSource> source;
};
Stack stack_of_three(const std::vector<uint32_t>& order_of_last) {
  const auto original = *make_synthetic("synthetic:test-llama:f32");
  auto base = std::make_unique<MemorySource>(*original);
  std::vector<size_t> matrices;
  for (const float number : {0.0f, 1.0f, 2.0f}) {
    const std::vector<float> values(8, number);
    const auto bytes = std::as_bytes(std::span(values));
    const std::string name = "m" + std::to_string(matrices.size());
    matrices.push_back(base->tensors().size());
    base->set_gather(name, number == 2 ? order_of_last : std::vector<uint32_t>{3, 2, 1, 0});
    base->add({name, ElementType::kF32, {2, 4}, 0}, {bytes.begin(), bytes.end()});
  }
  std::vector<ArrangedTensor> tensors = {*stack_of(*base, "stack", matrices)};
  MemorySource* const borrowed = base.get();
  arrange(*base, std::move(tensors));
  return {borrowed, std::move(base)};
}

TEST(ArrangedTensors, a_stack_that_is_read_range_by_range_holds_one_of_its_matrices) {
  const Stack stack = stack_of_three({3, 2, 1, 0});
  for (const uint64_t row : {0, 1, 2, 3, 4, 5, 0}) {
    const auto range = stack.source->read_range(0, row * kBytes / 2, kBytes / 2);
    ASSERT_TRUE(range) << range.error().message;
    float value = -1;
    std::memcpy(&value, range->data(), sizeof(value));
    EXPECT_EQ(value, static_cast<float>(row / 2));
    EXPECT_THAT(stack.source->gather(0), ElementsAre(3, 2, 1, 0));
    EXPECT_EQ(stack.base->n_lent(), 1u);
  }
  stack.source->release(0);
  EXPECT_EQ(stack.base->n_lent(), 0u);
}

// A table of three matrices [2, 4], one after the other. `base` is borrowed.
Stack joined_three() {
  const auto original = *make_synthetic("synthetic:test-llama:f32");
  auto base = std::make_unique<MemorySource>(*original);
  ArrangedTensor table{.info = {"table", ElementType::kF32, {6, 4}, 3 * kBytes},
                       .pieces = {},
                       .is_joined = true,
                       .values = {}};
  for (uint32_t i = 0; i < 3; ++i) {
    std::vector<float> values;
    for (uint32_t j = 0; j < 8; ++j) values.push_back(static_cast<float>(8 * i + j));
    const auto bytes = std::as_bytes(std::span(values));
    table.pieces.push_back({base->tensors().size(), 0, kBytes});
    base->add({"m" + std::to_string(i), ElementType::kF32, {2, 4}, 0},
              {bytes.begin(), bytes.end()});
  }
  MemorySource* const borrowed = base.get();
  arrange(*base, {std::move(table)});
  return {borrowed, std::move(base)};
}

TEST(ArrangedTensors, rows_of_a_joined_table_are_read_from_the_matrices_that_have_them) {
  const Stack table = joined_three();
  constexpr uint64_t kRowBytes = kBytes / 2;
  for (const auto& [first, n] : {std::pair(0, 2), {1, 3}, {3, 3}, {5, 1}, {0, 6}}) {
    const auto range = table.source->read_range(0, first * kRowBytes, n * kRowBytes);
    ASSERT_TRUE(range) << range.error().message;
    std::vector<float> values(4 * n);
    std::memcpy(values.data(), range->data(), range->size());
    for (int i = 0; i < 4 * n; ++i) EXPECT_EQ(values[i], static_cast<float>(4 * first + i));
    EXPECT_EQ(table.base->n_lent(), 1u);
  }
  table.source->release(0);
  EXPECT_EQ(table.base->n_lent(), 0u);
}

TEST(ArrangedTensors, a_range_over_two_matrices_is_of_the_whole) {
  const Stack stack = stack_of_three({3, 2, 1, 0});
  const auto range = stack.source->read_range(0, kBytes / 2, kBytes);
  ASSERT_TRUE(range && range->size() == kBytes);
  float values[8];
  std::memcpy(values, range->data(), kBytes);
  EXPECT_THAT(values, ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
}

TEST(ArrangedTensors, a_matrix_in_another_order_is_refused_by_name_when_it_is_read) {
  const Stack stack = stack_of_three({0, 1, 2, 3});
  EXPECT_TRUE(stack.source->read_range(0, 0, kBytes));
  const auto refused = stack.source->read_range(0, 2 * kBytes, kBytes);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(refused.error().message,
              HasSubstr("'m2' has its columns in another order than 'm0'"));
}

}  // namespace
}  // namespace kvik
