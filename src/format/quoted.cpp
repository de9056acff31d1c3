#include "format/quoted.h"

#include <fmt/format.h>

namespace kvik {

std::string Quoted::operator()(std::string_view name) const {
  constexpr size_t kMaxShownBytes = 64;
  std::string out = "'";
  for (const char c : name.substr(0, kMaxShownBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  out += name.size() > kMaxShownBytes ? "…'" : "'";
  return out;
}

}  // namespace kvik
