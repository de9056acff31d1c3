#pragma once

#include <string>
#include <string_view>

namespace kvik {

// Quotes a name from a file for a message: at most 64 bytes, unprintable bytes as \xNN. An object,
// because std::quoted would be found for std::string if <iomanip> is included.
struct Quoted {
  std::string operator()(std::string_view name) const;
};
inline constexpr Quoted quoted;

}  // namespace kvik
