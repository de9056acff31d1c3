#pragma once

#include <string>
#include <string_view>

namespace kvik {

// A name from a file for a message: quoted, of at most 64 bytes, unprintable bytes as \xNN. An
// object, or std::quoted would be found for a std::string wherever <iomanip> is at hand.
struct Quoted {
  std::string operator()(std::string_view name) const;
};
inline constexpr Quoted quoted;

}  // namespace kvik
