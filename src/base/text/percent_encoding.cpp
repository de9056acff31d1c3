#include "base/text/percent_encoding.h"

#include <fmt/format.h>

#include <iterator>

namespace kvik {

std::string percent_encoded(std::string_view text, std::string_view kept) {
  const auto stays = [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           kept.contains(c);
  };
  std::string out;
  for (const char c : text) {
    if (stays(c))
      out += c;
    else
      fmt::format_to(std::back_inserter(out), "%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace kvik
