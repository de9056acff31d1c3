#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "constrain/machine.h"

namespace kvik::constrain {
namespace {

constexpr std::array<std::string_view, 3> kWords = {"null", "true", "false"};

// Returns digits · 10^power without an exponent. `digits` has no leading or trailing zeros.
std::string in_decimals(const std::string& digits, int64_t power) {
  if (power >= 0) return digits + std::string(static_cast<size_t>(power), '0');
  const auto n_decimals = static_cast<size_t>(-power);
  if (n_decimals >= digits.size()) {
    return "0." + std::string(n_decimals - digits.size(), '0') + digits;
  }
  return std::string(digits).insert(digits.size() - n_decimals, 1, '.');
}

// Returns a canonical text of a number: the digits without leading and trailing zeros, then the
// power of ten. An exponent of over 17 digits is unchanged.
std::string number_key(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const size_t e = std::min(text.find_first_of("eE"), text.size());
  std::string_view mantissa = text.substr(0, e);
  std::string_view exponent = text.substr(std::min(e + 1, text.size()));
  const size_t point = std::min(mantissa.find('.'), mantissa.size());
  std::string digits(mantissa.substr(0, point));
  if (point < mantissa.size()) digits += mantissa.substr(point + 1);
  int64_t power = point < mantissa.size() ? -static_cast<int64_t>(mantissa.size() - point - 1) : 0;
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  if (digits.empty()) return "0";
  while (digits.back() == '0') {
    digits.pop_back();
    ++power;
  }
  bool is_below_zero = false;
  if (exponent.starts_with('-') || exponent.starts_with('+')) {
    is_below_zero = exponent.front() == '-';
    exponent.remove_prefix(1);
  }
  exponent.remove_prefix(std::min(exponent.find_first_not_of('0'), exponent.size()));
  constexpr size_t kMaxDigits = 17;
  if (exponent.size() > kMaxDigits) {
    return (negative ? "-" : "") + in_decimals(digits, power) + (is_below_zero ? "e-" : "e+") +
           std::string(exponent);
  }
  const std::string key = (negative ? "-" : "") + digits + 'e';
  int64_t more = 0;
  std::from_chars(exponent.data(), exponent.data() + exponent.size(), more);
  return key + std::to_string(power + (is_below_zero ? -more : more));
}

std::string quoted(std::u32string_view text) {
  std::string out = "\"";
  for (const char32_t c : text) {
    if (c < 0x20) {
      constexpr std::string_view kHex = "0123456789abcdef";
      out += "\\u00";
      out += kHex[c >> 4];
      out += kHex[c & 15];
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    append_utf8(c, out);
  }
  return out + '"';
}

}  // namespace

Memory Machine::memory_of(const Frame& frame) const {
  const auto words = lists_.get(frame.b);
  std::array<uint32_t, Memory::kWords> copied{};
  std::ranges::copy(words, copied.begin());
  return std::bit_cast<Memory>(copied);
}

uint32_t Machine::put_memory(const Memory& memory) { return lists_.put(memory.words()); }

uint32_t Machine::text_number(std::u32string_view text) {
  uint32_t number = 1;
  for (const char32_t c : text) number = texts_.put({number, c});
  return number;
}

uint32_t Machine::string_value(uint32_t text) {
  if (text == kForgotten) return text;
  return lists_.put(std::array{static_cast<uint32_t>(ValueKind::kString), text});
}

uint32_t Machine::plain_value(uint32_t text) {
  if (text == kForgotten) return text;
  const std::u32string characters = text_of(text);
  const std::string ascii(characters.begin(), characters.end());
  const auto word = std::ranges::find(kWords, ascii);
  if (word != kWords.end()) {
    return lists_.put(std::array{static_cast<uint32_t>(ValueKind::kWord),
                                 static_cast<uint32_t>(word - kWords.begin())});
  }
  const std::string key = number_key(ascii);
  return lists_.put(std::array{static_cast<uint32_t>(ValueKind::kNumber),
                               text_number(std::u32string(key.begin(), key.end()))});
}

uint32_t Machine::container_value(ValueKind kind, std::span<const uint32_t> record) {
  if (std::ranges::find(record, kForgotten) != record.end()) return kForgotten;
  std::vector<uint32_t> list = {static_cast<uint32_t>(kind)};
  list.insert(list.end(), record.begin(), record.end());
  return lists_.put(list);
}

std::string Machine::json_of(uint32_t value) const {
  const auto list = lists_.get(value);
  const auto parts = list.subspan(1);
  switch (ValueKind{list[0]}) {
    case ValueKind::kWord:
      return std::string(kWords[parts[0]]);
    case ValueKind::kNumber: {
      const std::u32string key = text_of(parts[0]);
      const std::string text(key.begin(), key.end());
      const auto plain = Decimal::parse(text);
      return plain ? plain->text() : text;
    }
    case ValueKind::kString:
      return quoted(text_of(parts[0]));
    case ValueKind::kArray: {
      std::string out = "[";
      for (const uint32_t item : parts) {
        if (out.size() > 1) out += ',';
        out += json_of(item);
      }
      return out + ']';
    }
    case ValueKind::kObject:
      break;
  }
  std::string out = "{";
  for (size_t i = 0; i + 1 < parts.size(); i += 2) {
    if (i > 0) out += ',';
    out += quoted(text_of(parts[i]));
    out += ':';
    out += json_of(parts[i + 1]);
  }
  return out + '}';
}

}  // namespace kvik::constrain
