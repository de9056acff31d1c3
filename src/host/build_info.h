#pragma once

#include <string>
#include <string_view>

namespace kvik {

// Version of this program. cmake/build_info.cmake generates the unit that defines it.
struct BuildInfo {
  std::string_view version;
  std::string_view commit;  // "unknown" outside of a git checkout
  std::string_view compiler;
};
const BuildInfo& build_info();

// Returns the text of `kvik --version`: the version, the instruction sets compiled in, and the one
// in use if `isa` is requested (empty: the best).
std::string version_text(std::string_view isa);

}  // namespace kvik
