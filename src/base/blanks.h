#pragma once

#include <algorithm>
#include <string_view>

namespace kvik {

// Whitespace in JSON, HTTP headers and lines that people type.
inline constexpr std::string_view kBlanks = " \t\r\n";

inline bool is_blank(char byte) { return kBlanks.find(byte) != kBlanks.npos; }

// Returns the text without leading and trailing whitespace.
inline std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

}  // namespace kvik
