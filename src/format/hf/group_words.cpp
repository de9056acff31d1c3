#include "format/hf/group_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "tensor/half.h"

namespace kvik::hf {
namespace {

// Rows that are unpacked together: their levels of a block stay in the first-level cache, and each
// line of words is read in whole cache lines.
constexpr uint64_t kTileRows = 64;
constexpr uint32_t kMaxGroupInputs = 128;

// AWQ's order of eight rows in the nibbles of a word.
constexpr uint32_t kAwqNibble[] = {0, 4, 1, 5, 2, 6, 3, 7};

// Unpacks `n` numbers from the beginning of a word.
void unpack_line(const GroupWords& words, const uint32_t* line, uint64_t n, uint8_t* out) {
  const uint32_t bits = words.how.bits;
  const uint32_t per_word = 32 / bits;
  const uint32_t mask = (1u << bits) - 1;
  const bool is_awq = words.how.packing == Quantization::Packing::kAlongOutputs;
  for (uint64_t i = 0; i < n; ++i) {
    const auto place = static_cast<uint32_t>(i % per_word);
    const uint32_t shift = bits * (is_awq ? kAwqNibble[place] : place);
    out[i] = static_cast<uint8_t>(line[i / per_word] >> shift & mask);
  }
}

// Unpacks column `k` of rows [first, first + n).
void unpack_quants(const GroupWords& words, uint64_t k, uint64_t first, uint64_t n, uint8_t* out) {
  const uint32_t per_word = 32 / words.how.bits;
  if (words.how.packing == Quantization::Packing::kAlongOutputs) {
    const uint64_t line_words = words.n_rows / per_word;
    return unpack_line(words, &words.quants[k * line_words + first / per_word], n, out);
  }
  const bool is_by_row = words.how.packing == Quantization::Packing::kRowByRow;
  const uint64_t row_words = words.n_cols / per_word;
  const uint64_t stride = is_by_row ? row_words : 1;
  const uint32_t* line = &words.quants[is_by_row ? first * row_words + k / per_word
                                                 : k / per_word * words.n_rows + first];
  const auto shift = static_cast<uint32_t>(k % per_word) * words.how.bits;
  const uint32_t mask = (1u << words.how.bits) - 1;
  for (uint64_t i = 0; i < n; ++i) {
    out[i] = static_cast<uint8_t>(line[i * stride] >> shift & mask);
  }
}

// BlockInt4 and BlockInt8 begin with scale and zero point in two bytes each, for all group sizes.
void put_head(uint16_t scale, uint32_t zero, std::byte* out) {
  CHECK(zero <= 256);
  const uint16_t head[] = {scale, static_cast<uint16_t>(zero)};
  std::memcpy(out, head, sizeof(head));
}

using Tile = uint8_t[kMaxGroupInputs][kTileRows];

void put_quants(const Tile& tile, uint64_t row, uint32_t block, uint32_t bits, std::byte* out) {
  if (bits == 8) {
    for (uint32_t i = 0; i < block; ++i) out[i] = std::byte{tile[i][row]};
    return;
  }
  for (uint32_t half = 0; half < block; half += 32) {
    for (uint32_t i = 0; i < 16; ++i) {
      const uint32_t pair = tile[half + i][row] | uint32_t{tile[half + i + 16][row]} << 4;
      out[half / 2 + i] = static_cast<std::byte>(pair);
    }
  }
}

void pack_tile(const GroupWords& words, std::span<const uint32_t> order, uint64_t first,
               std::byte* out) {
  const ElementTraits& type = traits(*group_type(words.how.bits, words.group, words.n_cols));
  const uint32_t block = type.block_elements;
  const uint64_t n_blocks = words.n_cols / block;
  const uint64_t n = std::min(kTileRows, words.n_rows - first);
  const uint32_t per_word = 32 / words.how.bits;
  const uint64_t zero_words = (words.n_rows + per_word - 1) / per_word;
  Tile tile;
  uint8_t zeros[kTileRows];
  for (uint64_t b = 0; b < n_blocks; ++b) {
    for (uint32_t i = 0; i < block; ++i) {
      const uint64_t column = b * block + i;
      unpack_quants(words, order.empty() ? column : order[column], first, n, tile[i]);
    }
    const uint64_t group = b * block / words.group;
    unpack_line(words, &words.zeros[group * zero_words + first / per_word], n, zeros);
    for (uint64_t row = 0; row < n; ++row) {
      std::byte* to = out + ((first + row) * n_blocks + b) * type.block_bytes;
      put_head(words.scales[group * words.n_rows + first + row],
               zeros[row] + words.how.added_to_zeros, to);
      put_quants(tile, row, block, words.how.bits, to + 4);
    }
  }
}

}  // namespace

std::optional<ElementType> group_type(uint32_t bits, uint64_t group, uint64_t n_cols) {
  const uint64_t shared = std::gcd(group, n_cols);
  if (shared == 0 || shared % 32 != 0) return std::nullopt;
  if (bits == 8) return shared % 128 == 0 ? ElementType::kInt8G128 : ElementType::kInt8G32;
  if (shared % 128 == 0) return ElementType::kInt4G128;
  return shared % 64 == 0 ? ElementType::kInt4G64 : ElementType::kInt4G32;
}

Result<std::vector<uint32_t>> order_by_group(std::span<const int32_t> groups, uint64_t group) {
  CHECK(group > 0);
  const uint64_t n_groups = (groups.size() + group - 1) / group;
  std::vector<uint64_t> counts(n_groups);
  std::vector<uint32_t> order(groups.size());
  for (size_t k = 0; k < groups.size(); ++k) {
    const auto g = static_cast<uint64_t>(groups[k]);
    if (groups[k] < 0 || g >= n_groups) {
      return fail(ErrorCode::kCorrupt, fmt::format("puts column {} into group {}, expected 0 to {}",
                                                   k, groups[k], n_groups - 1));
    }
    const uint64_t n_wanted = std::min<uint64_t>(group, groups.size() - g * group);
    if (counts[g] == n_wanted) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("puts more columns into group {} than its {}", g, n_wanted));
    }
    order[g * group + counts[g]++] = static_cast<uint32_t>(k);
  }
  if (std::ranges::is_sorted(order)) order.clear();
  return order;
}

GroupScales f16_scales_of(std::span<const uint16_t> scales) {
  GroupScales out;
  float peak = 0;
  bool all_fit = true;
  for (const uint16_t scale : scales) {
    const float value = bf16_to_f32(scale);
    peak = std::max(peak, std::fabs(value));
    all_fit = all_fit && f16_to_f32(f32_to_f16(value)) == value;
  }
  if (!all_fit) out.factor = std::ldexp(1.0f, std::ilogb(peak) - 15);  // f16 is less than 2^16
  for (const uint16_t scale : scales) {
    out.halves.push_back(f32_to_f16(bf16_to_f32(scale) / out.factor));
  }
  return out;
}

void pack_groups(const GroupWords& words, std::span<const uint32_t> order, std::byte* out) {
  const uint32_t per_word = 32 / words.how.bits;
  const uint64_t n_groups = (words.n_cols + words.group - 1) / words.group;
  const uint64_t zero_words = (words.n_rows + per_word - 1) / per_word;
  CHECK(words.how.packing == Quantization::Packing::kRowByRow || words.n_rows % per_word == 0);
  CHECK(words.n_cols % per_word == 0);
  CHECK(words.quants.size() == words.n_rows * words.n_cols / per_word);
  CHECK(words.zeros.size() == n_groups * zero_words);
  CHECK(words.scales.size() == n_groups * words.n_rows);
  CHECK(order.empty() || order.size() == words.n_cols);
  CHECK(words.how.added_to_zeros <= 1);
  for (uint64_t first = 0; first < words.n_rows; first += kTileRows) {
    pack_tile(words, order, first, out);
  }
}

}  // namespace kvik::hf
