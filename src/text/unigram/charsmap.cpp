#include "text/unigram/charsmap.h"

#include <fmt/format.h>

namespace kvik {
namespace {

constexpr const char* kKey = "tokenizer.ggml.precompiled_charsmap";

// These decode a unit of the double array (Darts-clone, DoubleArrayUnit).
uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
uint32_t label_of(uint32_t unit) { return unit & ((1u << 31) | 0xFF); }
bool has_value(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t value_of(uint32_t unit) { return unit & ((1u << 31) - 1); }

uint32_t read_u32(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

}  // namespace

Result<Charsmap> Charsmap::read(const Metadata& metadata) {
  TRY_ASSIGN(const auto values, metadata.get_ints(kKey));
  if (!values || values->empty()) return Charsmap();
  std::string bytes;
  bytes.reserve(values->size());
  for (const int64_t value : *values) bytes.push_back(static_cast<char>(value & 0xFF));
  return parse(bytes, fmt::format("metadata key '{}'", kKey));
}

Result<Charsmap> Charsmap::from_base64(std::string_view base64) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  constexpr std::string_view kWhere = "tokenizer.json: 'precompiled_charsmap'";
  if (base64.empty()) return Charsmap();
  while (base64.ends_with('=')) base64.remove_suffix(1);
  std::string bytes;
  uint32_t bits = 0;
  for (size_t i = 0; i < base64.size(); ++i) {
    const size_t digit = kDigits.find(base64[i]);
    if (digit == kDigits.npos) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("{} has the byte 0x{:02X} at {}, expected base64", kWhere,
                              static_cast<uint8_t>(base64[i]), i));
    }
    bits = bits << 6 | static_cast<uint32_t>(digit);
    if (i % 4 > 0) bytes.push_back(static_cast<char>(bits >> (6 - 2 * (i % 4)) & 0xFF));
  }
  return parse(bytes, kWhere);
}

Result<Charsmap> Charsmap::parse(const std::string& bytes, std::string_view where) {
  Charsmap map;
  const size_t n_trie_bytes = bytes.size() < 4 ? 0 : read_u32(bytes, 0);
  if (n_trie_bytes == 0 || n_trie_bytes % 4 != 0 || n_trie_bytes >= bytes.size() - 4 ||
      bytes.back() != '\0') {
    return fail(ErrorCode::kCorrupt,
                fmt::format("{} has {} bytes with a trie of {}, expected a trie and strings that "
                            "end in NUL",
                            where, bytes.size(), n_trie_bytes));
  }
  for (size_t at = 4; at < 4 + n_trie_bytes; at += 4) map.units_.push_back(read_u32(bytes, at));
  map.replacements_ = bytes.substr(4 + n_trie_bytes);
  return map;
}

std::optional<Charsmap::Match> Charsmap::longest_at(std::string_view text, size_t at) const {
  std::optional<Match> longest;
  if (units_.empty()) return longest;
  uint32_t node = offset_of(units_[0]);
  for (size_t end = at; end < text.size(); ++end) {
    const auto byte = static_cast<uint8_t>(text[end]);
    node ^= byte;
    if (byte == 0 || node >= units_.size() || label_of(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!has_value(unit)) continue;
    if (node >= units_.size() || value_of(units_[node]) >= replacements_.size()) break;
    longest = Match{end + 1 - at, replacements_.c_str() + value_of(units_[node])};
  }
  return longest;
}

}  // namespace kvik
