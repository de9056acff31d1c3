#include "backend/cpu/isa/kernels.h"

namespace kvik::cpu {
namespace {

constexpr size_t kLanes = 16;

size_t round_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

size_t KvBlockLayout::k_bytes() const {
  if (type == KvType::kInt4) {
    return kPageTokens * (round_up(head_dim, 8) / 2 + n_groups(type, head_dim) * sizeof(uint16_t));
  }
  return kPageTokens * row_bytes(type, type == KvType::kInt8 ? round_up(head_dim, 4) : head_dim);
}

size_t KvBlockLayout::v_bytes() const {
  if (type == KvType::kInt4) {
    const size_t packed = round_up(head_dim, 2 * kLanes) / 2;
    return kPageTokens * (packed + n_groups(type, head_dim) * sizeof(uint16_t));
  }
  return kPageTokens * row_bytes(type, round_up(head_dim, kLanes));
}

size_t partial_floats(const KvBlockLayout& layout, size_t n_pairs) {
  return n_pairs * (round_up(layout.head_dim, kLanes) + 2);
}

}  // namespace kvik::cpu
