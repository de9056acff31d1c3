#include "constrain/string_cursor.h"

#include <algorithm>

namespace kvik::constrain {
namespace {

// The upper four bits of a partial character. The meaning of the other bits depends on the phase.
enum Phase : uint32_t {
  kBetween,
  kUtf8,       // value: 21 bits, bytes left: 2, bytes in total: 3
  kBackslash,  // no data
  kHex,        // value: 16 bits, digits so far: 2
  kHighDone,   // high surrogate: 10 bits
  kHighSlash,  // the same, followed by a backslash
  kLowHex,     // value: 16 bits, digits so far: 2, upper half: 10
};

constexpr uint32_t kPhaseShift = 28;
constexpr uint32_t kDataMask = (1u << kPhaseShift) - 1;
constexpr CodePointSet::Range kNone{1, 0};

using Kind = CharacterCursor::Kind;
using Step = CharacterCursor::Step;

Step inside(Phase phase, uint32_t data) { return {Kind::kInside, phase << kPhaseShift | data}; }
Step character(char32_t c) { return {Kind::kCharacter, 0, c}; }
Step invalid() { return {Kind::kInvalid}; }

uint32_t utf8_data(uint32_t value, uint32_t n_left, uint32_t n_all) {
  return value | n_left << 21 | n_all << 23;
}

// Returns the range of characters that the first bytes of a UTF-8 sequence may become (Unicode 15,
// table 3-7).
CodePointSet::Range utf8_range(uint32_t data) {
  constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const uint32_t value = data & 0x1FFFFF, n_left = data >> 21 & 3, n_all = data >> 23;
  const char32_t first = value << (6 * n_left);
  const char32_t last = first | ((1u << (6 * n_left)) - 1);
  CodePointSet::Range range{std::max(first, kLeast[n_all]), std::min(last, kMaxCodePoint)};
  if (range.first >= 0xD800 && range.first <= 0xDFFF) range.first = 0xE000;
  if (range.last >= 0xD800 && range.last <= 0xDFFF) range.last = 0xD7FF;
  return range;
}

Step begin_utf8(uint8_t byte) {
  if (byte < 0xC2 || byte > 0xF4) return invalid();
  if (byte < 0xE0) return inside(kUtf8, utf8_data(byte & 0x1F, 1, 2));
  if (byte < 0xF0) return inside(kUtf8, utf8_data(byte & 0x0F, 2, 3));
  return inside(kUtf8, utf8_data(byte & 0x07, 3, 4));
}

Step continue_utf8(uint32_t data, uint8_t byte) {
  if ((byte & 0xC0) != 0x80) return invalid();
  const uint32_t n_left = (data >> 21 & 3) - 1;
  const uint32_t next = utf8_data((data & 0x1FFFFF) << 6 | (byte & 0x3F), n_left, data >> 23);
  const auto [first, last] = utf8_range(next);
  if (first > last) return invalid();
  return n_left == 0 ? character(next & 0x1FFFFF) : inside(kUtf8, next);
}

std::optional<uint32_t> hex_digit(uint8_t byte) {
  if (byte >= '0' && byte <= '9') return byte - '0';
  if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
  if (byte >= 'A' && byte <= 'F') return byte - 'A' + 10;
  return {};
}

Step after_backslash(uint8_t byte) {
  switch (byte) {
    case '"':
    case '\\':
    case '/':
      return character(byte);
    case 'b':
      return character('\b');
    case 'f':
      return character('\f');
    case 'n':
      return character('\n');
    case 'r':
      return character('\r');
    case 't':
      return character('\t');
    case 'u':
      return inside(kHex, 0);
    default:
      return invalid();
  }
}

// Returns the range of numbers whose four hexadecimal digits begin with those read so far.
CodePointSet::Range hex_range(uint32_t data) {
  const uint32_t value = data & 0xFFFF, n_left = 4 - (data >> 16 & 3);
  const char32_t first = value << (4 * n_left);
  return {first, first | ((1u << (4 * n_left)) - 1)};
}

Step in_hex(uint32_t data, uint8_t byte) {
  const auto digit = hex_digit(byte);
  if (!digit) return invalid();
  const uint32_t value = (data & 0xFFFF) << 4 | *digit;
  const uint32_t n = (data >> 16 & 3) + 1;
  if (n < 4) {
    // \udc00 to \udfff are low surrogates, which do not begin a character.
    if (n >= 2 && value >> (4 * (n - 2)) >= 0xDC && value >> (4 * (n - 2)) <= 0xDF)
      return invalid();
    return inside(kHex, n << 16 | value);
  }
  if (value < 0xD800 || value > 0xDFFF) return character(value);
  if (value > 0xDBFF) return invalid();
  return inside(kHighDone, value - 0xD800);
}

Step in_low_hex(uint32_t data, uint8_t byte) {
  const auto digit = hex_digit(byte);
  if (!digit) return invalid();
  const uint32_t high = data >> 18, n = (data >> 16 & 3) + 1;
  const uint32_t value = (data & 0xFFFF) << 4 | *digit;
  const uint32_t shift = 4 * (4 - n);
  const uint32_t first = value << shift, last = first | ((1u << shift) - 1);
  if (last < 0xDC00 || first > 0xDFFF) return invalid();
  if (n == 4) return character(0x10000 + (high << 10) + (value - 0xDC00));
  return inside(kLowHex, high << 18 | n << 16 | value);
}

}  // namespace

CharacterCursor::Step CharacterCursor::step_plain(uint32_t partial, uint8_t byte) {
  if (partial != 0) return continue_utf8(partial & kDataMask, byte);
  return byte < 0x80 ? character(byte) : begin_utf8(byte);
}

CharacterCursor::Step CharacterCursor::step_string(uint32_t partial, uint8_t byte) {
  const uint32_t data = partial & kDataMask;
  switch (partial >> kPhaseShift) {
    case kUtf8:
      return continue_utf8(data, byte);
    case kBackslash:
      return after_backslash(byte);
    case kHex:
      return in_hex(data, byte);
    case kHighDone:
      return byte == '\\' ? inside(kHighSlash, data) : invalid();
    case kHighSlash:
      return byte == 'u' ? inside(kLowHex, data << 18) : invalid();
    case kLowHex:
      return in_low_hex(data, byte);
    default:
      break;
  }
  if (byte == '"') return {Kind::kQuote};
  if (byte == '\\') return inside(kBackslash, 0);
  if (byte < 0x20) return invalid();
  return step_plain(0, byte);
}

bool CharacterCursor::is_escape(uint32_t partial) { return partial >> kPhaseShift > kUtf8; }

CharacterCursor::Ranges CharacterCursor::may_become(uint32_t partial) {
  const uint32_t data = partial & kDataMask;
  const auto of_high = [](uint32_t first_high, uint32_t last_high) {
    return CodePointSet::Range{0x10000 + (first_high << 10), 0x10000 + (last_high << 10) + 0x3FF};
  };
  switch (partial >> kPhaseShift) {
    case kUtf8:
      return {utf8_range(data), kNone};
    case kHex: {
      const auto [first, last] = hex_range(data);
      const uint32_t high = std::max<uint32_t>(first, 0xD800),
                     low = std::min<uint32_t>(last, 0xDBFF);
      const auto pairs = high <= low ? of_high(high - 0xD800, low - 0xD800) : kNone;
      if (first <= 0xD7FF && last >= 0xE000) return {CodePointSet::Range{first, last}, pairs};
      if (first >= 0xD800 && last <= 0xDFFF) return {kNone, pairs};
      return {CodePointSet::Range{first, last}, pairs};
    }
    case kHighDone:
    case kHighSlash:
      return {of_high(data, data), kNone};
    case kLowHex: {
      const uint32_t n_left = 4 - (data >> 16 & 3), high = data >> 18;
      const uint32_t first = (data & 0xFFFF) << (4 * n_left);
      const uint32_t last = first | ((1u << (4 * n_left)) - 1);
      const uint32_t low = std::max<uint32_t>(first, 0xDC00) - 0xDC00;
      const uint32_t up = std::min<uint32_t>(last, 0xDFFF) - 0xDC00;
      return {CodePointSet::Range{0x10000 + (high << 10) + low, 0x10000 + (high << 10) + up},
              kNone};
    }
    default:
      return {CodePointSet::Range{0, kMaxCodePoint}, kNone};
  }
}

}  // namespace kvik::constrain
