#include "tensor/element_type.h"

#include <array>

#include "base/check.h"
#include "tensor/block_format.h"
#include "tensor/blocks_32.h"
#include "tensor/code_blocks.h"
#include "tensor/group_blocks.h"
#include "tensor/k_blocks.h"
#include "tensor/table_blocks.h"

namespace kvik {
namespace {

using enum ElementType;

// Block shapes as in ggml's ggml-common.h.
constexpr ElementTraits kTraits[] = {
#define KVIK_TRAITS(...) {__VA_ARGS__},
    KVIK_ELEMENT_TYPES(KVIK_TRAITS)
#undef KVIK_TRAITS
};

constexpr auto kFormats = [] {
  std::array<const BlockFormat*, kNumElementTypes> by_type{};
  for (const std::span<const BlockFormat> formats :
       {std::span<const BlockFormat>(kBlocksOf32), std::span<const BlockFormat>(kKBlocks),
        std::span<const BlockFormat>(kGroups), std::span<const BlockFormat>(kCodeBlocks),
        std::span<const BlockFormat>(kTableBlocks)}) {
    for (const BlockFormat& format : formats) by_type[static_cast<size_t>(format.type)] = &format;
  }
  return by_type;
}();

constexpr bool have_the_size_of_their_traits(std::span<const BlockFormat> formats) {
  for (const BlockFormat& format : formats) {
    const ElementTraits& t = kTraits[static_cast<size_t>(format.type)];
    if (format.block.bytes != t.block_bytes) return false;
    if (bytes_of(format.row_scale) != t.row_header_bytes) return false;
  }
  return true;
}
static_assert(have_the_size_of_their_traits(kBlocksOf32));
static_assert(have_the_size_of_their_traits(kKBlocks));
static_assert(have_the_size_of_their_traits(kGroups));
static_assert(have_the_size_of_their_traits(kCodeBlocks));
static_assert(have_the_size_of_their_traits(kTableBlocks));

}  // namespace

const ElementTraits& traits(ElementType type) {
  const auto index = static_cast<size_t>(type);
  CHECK(index < kNumElementTypes);
  return kTraits[index];
}

const BlockFormat* block_format(ElementType type) { return kFormats[static_cast<size_t>(type)]; }

std::span<const ElementTraits> element_types() { return kTraits; }

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
