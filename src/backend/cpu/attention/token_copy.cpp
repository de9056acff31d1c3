#include "backend/cpu/attention/token_copy.h"

#include <cstring>

#include "base/check.h"

namespace kvik::cpu {
namespace {

// Returns the offset of a token's first unit; the next one is kTokenLanes units after it.
size_t units_at(const TokenLayout& layout, uint32_t token) {
  return (size_t{token / kTokenLanes} * layout.n_units * kTokenLanes + token % kTokenLanes) *
         layout.unit_bytes;
}

size_t scale_at(const TokenLayout& layout, uint32_t scale, uint32_t token) {
  return layout.scales_at() + (size_t{scale} * kPageTokens + token) * layout.scale_bytes;
}

template <class Unit>
void copy_units(uint32_t n_units, const std::byte* from, std::byte* to) {
  constexpr size_t kLineBytes = kTokenLanes * sizeof(Unit);
  for (uint32_t i = 0; i < n_units; ++i) {
    std::memcpy(to + i * kLineBytes, from + i * kLineBytes, sizeof(Unit));
  }
}

template <class Unit>
void pack_units(uint32_t n_units, const std::byte* from, std::byte* slot) {
  for (uint32_t i = 0; i < n_units; ++i) {
    std::memcpy(slot + i * sizeof(Unit), from + size_t{i} * kTokenLanes * sizeof(Unit),
                sizeof(Unit));
  }
}

// Transposes N rows of N units, of 16 bytes each, to N columns: log2(N) times, the first half of
// the rows is interleaved with the second.
template <class Unit>
void transpose(const std::byte* const* rows, size_t offset, std::byte* to, size_t to_stride) {
  using Vector [[gnu::vector_size(16)]] = Unit;
  constexpr uint32_t kUnits = 16 / sizeof(Unit);
  Vector in[kUnits], out[kUnits];
#pragma GCC unroll 8
  for (uint32_t i = 0; i < kUnits; ++i) std::memcpy(&in[i], rows[i] + offset, sizeof(Vector));
#pragma GCC unroll 3
  for (uint32_t step = 1; step < kUnits; step *= 2) {
#pragma GCC unroll 4
    for (uint32_t i = 0; i < kUnits / 2; ++i) {
      const Vector a = in[i], b = in[i + kUnits / 2];
      if constexpr (kUnits == 4) {
        out[2 * i] = __builtin_shufflevector(a, b, 0, 4, 1, 5);
        out[2 * i + 1] = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      } else {
        out[2 * i] = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
        out[2 * i + 1] = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
      }
    }
#pragma GCC unroll 8
    for (uint32_t i = 0; i < kUnits; ++i) in[i] = out[i];
  }
#pragma GCC unroll 8
  for (uint32_t i = 0; i < kUnits; ++i) std::memcpy(to + i * to_stride, &in[i], sizeof(Vector));
}

template <class Unit>
void unpack_units(uint32_t n_units, std::span<const std::byte* const> slots, std::byte* to) {
  constexpr uint32_t kUnits = 16 / sizeof(Unit);
  constexpr size_t kLineBytes = kTokenLanes * sizeof(Unit);
  const uint32_t n_square = slots.size() == kTokenLanes ? n_units / kUnits * kUnits : 0;
  for (uint32_t i = 0; i < n_square; i += kUnits) {
    for (uint32_t t = 0; t < kTokenLanes; t += kUnits) {
      transpose<Unit>(&slots[t], i * sizeof(Unit), to + i * kLineBytes + t * sizeof(Unit),
                      kLineBytes);
    }
  }
  for (uint32_t i = n_square; i < n_units; ++i) {
    for (size_t t = 0; t < slots.size(); ++t) {
      std::memcpy(to + i * kLineBytes + t * sizeof(Unit), slots[t] + i * sizeof(Unit),
                  sizeof(Unit));
    }
  }
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
  const std::byte* in = from + units_at(layout, token);
  std::byte* out = to + units_at(layout, to_token);
  if (layout.unit_bytes == 4) {
    copy_units<uint32_t>(layout.n_units, in, out);
  } else {
    copy_units<uint16_t>(layout.n_units, in, out);
  }
  for (uint32_t i = 0; i < layout.n_scales; ++i) {
    std::memcpy(to + scale_at(layout, i, to_token), from + scale_at(layout, i, token),
                layout.scale_bytes);
  }
}

void copy_tokens(const TokenLayout& layout, const std::byte* from, uint32_t token, uint32_t n,
                 std::byte* to, uint32_t to_token) {
  DCHECK(token % kTokenLanes + n <= kTokenLanes && to_token % kTokenLanes + n <= kTokenLanes);
  const size_t line_bytes = size_t{kTokenLanes} * layout.unit_bytes;
  const std::byte* in = from + units_at(layout, token);
  std::byte* out = to + units_at(layout, to_token);
  for (uint32_t i = 0; i < layout.n_units; ++i) {
    std::memcpy(out + i * line_bytes, in + i * line_bytes, size_t{n} * layout.unit_bytes);
  }
  for (uint32_t i = 0; i < layout.n_scales; ++i) {
    std::memcpy(to + scale_at(layout, i, to_token), from + scale_at(layout, i, token),
                size_t{n} * layout.scale_bytes);
  }
}

void pack_token(const TokenLayout& layout, const std::byte* from, uint32_t token, std::byte* slot) {
  const std::byte* units = from + units_at(layout, token);
  if (layout.unit_bytes == 4) {
    pack_units<uint32_t>(layout.n_units, units, slot);
  } else {
    pack_units<uint16_t>(layout.n_units, units, slot);
  }
  slot += size_t{layout.n_units} * layout.unit_bytes;
  for (uint32_t i = 0; i < layout.n_scales; ++i, slot += layout.scale_bytes) {
    std::memcpy(slot, from + scale_at(layout, i, token), layout.scale_bytes);
  }
}

void unpack_tokens(const TokenLayout& layout, std::span<const std::byte* const> slots,
                   std::byte* to, uint32_t to_token) {
  DCHECK(to_token % kTokenLanes + slots.size() <= kTokenLanes);
  std::byte* units = to + units_at(layout, to_token);
  if (layout.unit_bytes == 4) {
    unpack_units<uint32_t>(layout.n_units, slots, units);
  } else {
    unpack_units<uint16_t>(layout.n_units, slots, units);
  }
  const size_t scales = size_t{layout.n_units} * layout.unit_bytes;
  for (uint32_t t = 0; t < slots.size(); ++t) {
    for (uint32_t i = 0; i < layout.n_scales; ++i) {
      std::memcpy(to + scale_at(layout, i, to_token + t),
                  slots[t] + scales + i * layout.scale_bytes, layout.scale_bytes);
    }
  }
}

}  // namespace kvik::cpu
