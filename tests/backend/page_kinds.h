#pragma once

#include <string>

#include "tensor/kv_type.h"

namespace kvik::testing {

// A KV type, and whether each row reads its own page from an open page.
struct PageKind {
  KvType type;
  bool open = false;

  // Models without MLA use this layout.
  bool keys_by_channel() const { return open && type == KvType::kInt4; }
};
inline std::string name_of(PageKind kind) {
  return std::string(kvik::name_of(kind.type)) + (kind.open ? " open" : "");
}
inline constexpr PageKind kPageKinds[] = {
    {KvType::kF32},  {KvType::kBF16},           {KvType::kInt8},      {KvType::kInt8Int4},
    {KvType::kInt4}, {KvType::kInt8Int4, true}, {KvType::kInt4, true}};

}  // namespace kvik::testing
