#include "tensor/element_type.h"

#include <array>

#include "base/check.h"
#include "tensor/block_format.h"
#include "tensor/blocks_32.h"
#include "tensor/group_blocks.h"
#include "tensor/k_blocks.h"

namespace kvik {
namespace {

using enum ElementType;

// Block shapes as in ggml's ggml-common.h.
constexpr std::array<ElementTraits, kNumElementTypes> kTraits = {{
    {kF32, "f32", 0, 1, 4},
    {kF16, "f16", 1, 1, 2},
    {kQ4_0, "q4_0", 2, 32, 18},
    {kQ4_1, "q4_1", 3, 32, 20},
    {kQ5_0, "q5_0", 6, 32, 22},
    {kQ5_1, "q5_1", 7, 32, 24},
    {kQ8_0, "q8_0", 8, 32, 34},
    {kQ8_1, "q8_1", 9, 32, 36},
    {kQ2_K, "q2_k", 10, 256, 84},
    {kQ3_K, "q3_k", 11, 256, 110},
    {kQ4_K, "q4_k", 12, 256, 144},
    {kQ5_K, "q5_k", 13, 256, 176},
    {kQ6_K, "q6_k", 14, 256, 210},
    {kQ8_K, "q8_k", 15, 256, 292},
    {kIQ2_XXS, "iq2_xxs", 16, 256, 66},
    {kIQ2_XS, "iq2_xs", 17, 256, 74},
    {kIQ3_XXS, "iq3_xxs", 18, 256, 98},
    {kIQ1_S, "iq1_s", 19, 256, 50},
    {kIQ4_NL, "iq4_nl", 20, 32, 18},
    {kIQ3_S, "iq3_s", 21, 256, 110},
    {kIQ2_S, "iq2_s", 22, 256, 82},
    {kIQ4_XS, "iq4_xs", 23, 256, 136},
    {kI8, "i8", 24, 1, 1},
    {kI16, "i16", 25, 1, 2},
    {kI32, "i32", 26, 1, 4},
    {kI64, "i64", 27, 1, 8},
    {kF64, "f64", 28, 1, 8},
    {kIQ1_M, "iq1_m", 29, 256, 56},
    {kBF16, "bf16", 30, 1, 2},
    {kTQ1_0, "tq1_0", 34, 256, 54},
    {kTQ2_0, "tq2_0", 35, 256, 66},
    {kMXFP4, "mxfp4", 39, 32, 17},
    {kInt4G32, "int4g32", kNoGgufId, 32, 20},
    {kInt4G64, "int4g64", kNoGgufId, 64, 36},
    {kInt4G128, "int4g128", kNoGgufId, 128, 68},
    {kInt8G32, "int8g32", kNoGgufId, 32, 36},
    {kInt8G128, "int8g128", kNoGgufId, 128, 132},
    {kFp8, "fp8", kNoGgufId, 128, 132},
    {kFp8G32, "fp8g32", kNoGgufId, 32, 36},
    {kNvFp4, "nvfp4", 40, 64, 36},
}};

constexpr bool table_is_in_enum_order() {
  for (size_t i = 0; i < kTraits.size(); ++i) {
    if (static_cast<size_t>(kTraits[i].type) != i) return false;
  }
  return true;
}
static_assert(table_is_in_enum_order());

constexpr auto kFormats = [] {
  std::array<const BlockFormat*, kNumElementTypes> by_type{};
  for (const std::span<const BlockFormat> formats :
       {std::span<const BlockFormat>(kBlocksOf32), std::span<const BlockFormat>(kKBlocks),
        std::span<const BlockFormat>(kGroups)}) {
    for (const BlockFormat& format : formats) by_type[static_cast<size_t>(format.type)] = &format;
  }
  return by_type;
}();

constexpr bool have_the_size_of_their_traits(std::span<const BlockFormat> formats) {
  for (const BlockFormat& format : formats) {
    if (format.block.bytes != kTraits[static_cast<size_t>(format.type)].block_bytes) return false;
  }
  return true;
}
static_assert(have_the_size_of_their_traits(kBlocksOf32));
static_assert(have_the_size_of_their_traits(kKBlocks));
static_assert(have_the_size_of_their_traits(kGroups));

}  // namespace

const ElementTraits& traits(ElementType type) {
  const auto index = static_cast<size_t>(type);
  CHECK(index < kTraits.size());
  return kTraits[index];
}

const BlockFormat* block_format(ElementType type) { return kFormats[static_cast<size_t>(type)]; }

std::optional<ElementType> element_type_from_gguf(uint32_t gguf_id) {
  for (const ElementTraits& t : kTraits) {
    if (t.gguf_id == gguf_id && gguf_id != kNoGgufId) return t.type;
  }
  return std::nullopt;
}

std::optional<ElementType> element_type_from_name(std::string_view name) {
  for (const ElementTraits& t : kTraits) {
    if (name == t.name) return t.type;
  }
  return std::nullopt;
}

}  // namespace kvik
