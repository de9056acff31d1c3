#pragma once

#include <string>
#include <string_view>

namespace kvik {

// What this program was made of; the unit is written by cmake/build_info.cmake.
struct BuildInfo {
  std::string_view version;
  std::string_view commit;  // "unknown" outside of a checkout
  std::string_view compiler;
};
const BuildInfo& build_info();

// What `kvik --version` says: that, the instruction sets that are compiled in, and the one that
// computes here where `isa` is asked for (empty: the best).
std::string version_text(std::string_view isa);

}  // namespace kvik
