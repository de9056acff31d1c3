#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tensor/element_enum.h"

namespace kvik {

struct ElementTraits {
  ElementType type;
  const char* name;         // name for users: "q8_0"
  uint32_t gguf_id;         // ggml's number of the type, or kNoGgufId
  uint32_t block_elements;  // elements of a block, along the last axis
  uint32_t block_bytes;
  uint32_t file_type;  // GGUF's "general.file_type" of a model of this type, or kNoFileType
  // Bytes before the blocks of each row: a scale, RowScale of the format (block_format.h).
  uint32_t row_header_bytes = 0;
};

std::span<const ElementTraits> element_types();  // all types, in the order of the enum

const ElementTraits& traits(ElementType type);
inline const char* name_of(ElementType type) { return traits(type).name; }

std::optional<ElementType> element_type_from_gguf(uint32_t gguf_id);
std::optional<ElementType> element_type_from_name(std::string_view name);

}  // namespace kvik
