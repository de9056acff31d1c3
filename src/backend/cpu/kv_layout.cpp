#include "backend/cpu/kernels.h"

namespace kvik::cpu {
namespace {

constexpr size_t kLanes = 16;

size_t element_bytes(KvType type) { return type == KvType::kF32 ? 4 : 2; }

}  // namespace

size_t KvBlockLayout::k_bytes() const {
  return size_t{kPageTokens} * head_dim * element_bytes(type);
}

size_t KvBlockLayout::v_bytes() const {
  const size_t padded_dim = (head_dim + kLanes - 1) / kLanes * kLanes;
  return size_t{kPageTokens} * padded_dim * element_bytes(type);
}

}  // namespace kvik::cpu
