#include "backend/cpu/attention/token_copy.h"

#include <cstring>

namespace kvik::cpu {
namespace {

constexpr uint32_t kLanes = 16;

template <class Unit>
void copy_units(uint32_t n, const std::byte* from, uint32_t token, std::byte* to,
                uint32_t to_token) {
  const auto* in =
      reinterpret_cast<const Unit*>(from) + size_t{token / kLanes} * n * kLanes + token % kLanes;
  auto* out =
      reinterpret_cast<Unit*>(to) + size_t{to_token / kLanes} * n * kLanes + to_token % kLanes;
  for (uint32_t i = 0; i < n; ++i) out[size_t{i} * kLanes] = in[size_t{i} * kLanes];
}

}  // namespace

TokenLayout token_layout(const KvBlockLayout& layout) {
  switch (layout.key_type()) {
    case KvType::kF32:
      return {sizeof(float), layout.head_dim, 0, 0};
    case KvType::kBF16:
      return {sizeof(uint16_t), layout.head_dim, 0, 0};
    case KvType::kInt8:
      return {4, (layout.head_dim + 3) / 4, sizeof(float), layout.n_key_groups()};
    case KvType::kInt8Int4:
    case KvType::kInt4:
      break;
  }
  return {4, (layout.head_dim + 7) / 8, sizeof(uint16_t), layout.n_key_groups()};
}

void copy_token(const TokenLayout& layout, const std::byte* from, uint32_t token, std::byte* to,
                uint32_t to_token) {
  if (layout.unit_bytes == 4) {
    copy_units<uint32_t>(layout.n_units, from, token, to, to_token);
  } else {
    copy_units<uint16_t>(layout.n_units, from, token, to, to_token);
  }
  const size_t row_bytes = size_t{kPageTokens} * layout.scale_bytes;
  for (uint32_t i = 0; i < layout.n_scales; ++i) {
    const size_t at = layout.scales_at() + i * row_bytes;
    std::memcpy(to + at + size_t{to_token} * layout.scale_bytes,
                from + at + size_t{token} * layout.scale_bytes, layout.scale_bytes);
  }
}

}  // namespace kvik::cpu
