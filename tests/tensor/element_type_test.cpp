#include "tensor/element_type.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tensor/kv_type.h"
#include "tensor/tensor_view.h"

namespace kvik {
namespace {

TEST(ElementType, every_type_is_found_by_its_gguf_id_and_by_its_name) {
  size_t n_types = 0;
  for (uint32_t id = 0; id < 512; ++id) {
    const auto type = element_type_from_gguf(id);
    if (!type) continue;
    ++n_types;
    EXPECT_EQ(traits(*type).gguf_id, id);
    EXPECT_EQ(element_type_from_name(name_of(*type)), type);
  }
  const auto is_of_gguf = [](const ElementTraits& t) { return t.gguf_id != kNoGgufId; };
  EXPECT_EQ(n_types, std::ranges::count_if(element_types(), is_of_gguf));
  EXPECT_EQ(traits(ElementType::kIQ4_XS).gguf_id, 23u);
  EXPECT_EQ(traits(ElementType::kNvFp4).gguf_id, 40u);
  EXPECT_EQ(traits(ElementType::kQ1_0).gguf_id, 41u);
  EXPECT_EQ(traits(ElementType::kQ2_0).gguf_id, 42u);
}

TEST(ElementType, types_of_folders_have_names_but_no_gguf_number) {
  for (const char* name :
       {"int4g32", "int4g64", "int4g128", "int8g32", "int8g128", "fp8", "fp8g32"}) {
    const auto type = element_type_from_name(name);
    ASSERT_TRUE(type) << name;
    EXPECT_EQ(traits(*type).gguf_id, kNoGgufId);
  }
}

TEST(ElementType, ids_that_ggml_gave_up_are_unknown) {
  for (const uint32_t id : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u, 1000u, ~0u}) {
    EXPECT_EQ(element_type_from_gguf(id), std::nullopt) << id;
  }
  for (const char* name : {"", "q4", "Q8_0", "q8_0 "}) {
    EXPECT_EQ(element_type_from_name(name), std::nullopt) << name;
  }
}

TEST(TensorShape, bytes_count_whole_blocks_along_the_last_axis) {
  using Shape = std::vector<uint64_t>;
  EXPECT_EQ(bytes_of(ElementType::kF32, Shape{3, 5}), 60u);
  EXPECT_EQ(bytes_of(ElementType::kQ8_0, Shape{3, 64}), 3u * 2 * 34);
  EXPECT_EQ(bytes_of(ElementType::kQ4_K, Shape{2, 512}), 2u * 2 * 144);
  EXPECT_EQ(bytes_of(ElementType::kIQ4_KS, Shape{3, 2, 512}), 6u * (4 + 2 * 136));
  EXPECT_EQ(bytes_of(ElementType::kIQ2_KS, Shape{256}), 2u + 70);
  EXPECT_EQ(bytes_of(ElementType::kIQ2_KS, Shape{1ULL << 60, 256}), std::nullopt);
  EXPECT_EQ(bytes_of(ElementType::kQ8_0, Shape{64, 3}), std::nullopt);
  EXPECT_EQ(bytes_of(ElementType::kF32, Shape{}), std::nullopt);
  EXPECT_EQ(bytes_of(ElementType::kF32, Shape{1ULL << 31, 1ULL << 31}), std::nullopt);
  EXPECT_EQ(bytes_of(ElementType::kF16, Shape{1ULL << 31, 1ULL << 31}), 1ULL << 63);
}

TEST(TensorShape, a_row_of_a_view_is_whole_blocks) {
  TensorView view;
  view.type = ElementType::kQ4_0;
  view.n_rows = 2;
  view.n_cols = 96;
  EXPECT_EQ(view.row_bytes(), 3u * 18);
  EXPECT_EQ((TensorView{ElementType::kIQ3_KS, 2, 512, {}}).row_bytes(), 2 + 2u * 102);
  EXPECT_EQ((TensorInfo{"a", ElementType::kF32, {2, 3, 4}, 96}).n_elements(), 24u);
}

TEST(KvType, every_name_finds_its_type) {
  for (const KvType type : kAllKvTypes) {
    EXPECT_EQ(kv_type_from_name(name_of(type)), type);
  }
  EXPECT_EQ(kv_type_from_name("int3"), std::nullopt);
}

}  // namespace
}  // namespace kvik
