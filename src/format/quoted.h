#pragma once

#include <string>
#include <string_view>

namespace kvik {

// A name from a file for a message: quoted, of at most 64 bytes, unprintable bytes as \xNN.
std::string quoted(std::string_view name);

}  // namespace kvik
