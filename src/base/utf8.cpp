#include "base/utf8.h"

#include "base/check.h"

namespace kvik {
namespace {

// Properties of a first byte: the number of bytes that follow, and the range of the second byte
// (narrower than 80..BF to exclude overlong forms, surrogates and code points beyond 10FFFF).
struct Lead {
  uint8_t n_following;
  uint8_t second_min = 0x80;
  uint8_t second_max = 0xBF;
};

Lead lead_of(uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {1};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {2};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {3};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {0};
}

}  // namespace

Utf8Step next_utf8(std::string_view text, size_t at) {
  DCHECK(at < text.size());
  const auto byte_at = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte_at(at);
  if (first < 0x80) return {Utf8Step::Kind::kValid, 1, first};
  const Lead lead = lead_of(first);
  if (lead.n_following == 0) return {Utf8Step::Kind::kInvalid, 1, 0};

  char32_t code_point = first & (0x3F >> lead.n_following);
  for (uint8_t i = 1; i <= lead.n_following; ++i) {
    if (at + i == text.size()) return {Utf8Step::Kind::kIncomplete, i, 0};
    const uint8_t byte = byte_at(at + i);
    const uint8_t min = i == 1 ? lead.second_min : 0x80;
    const uint8_t max = i == 1 ? lead.second_max : 0xBF;
    if (byte < min || byte > max) return {Utf8Step::Kind::kInvalid, i, 0};
    code_point = code_point << 6 | (byte & 0x3F);
  }
  return {Utf8Step::Kind::kValid, static_cast<uint8_t>(lead.n_following + 1), code_point};
}

void append_utf8(char32_t code_point, std::string& text) {
  DCHECK(code_point < 0x110000);
  if (code_point < 0x80) {
    text += static_cast<char>(code_point);
    return;
  }
  const int n_following = code_point < 0x800 ? 1 : code_point < 0x10000 ? 2 : 3;
  const int mark = 0xF0 << (3 - n_following) & 0xFF;
  text += static_cast<char>(mark | static_cast<int>(code_point >> (6 * n_following)));
  for (int i = n_following; i-- > 0;) {
    text += static_cast<char>(0x80 | (code_point >> (6 * i) & 0x3F));
  }
}

}  // namespace kvik
