#pragma once

#include <string>

namespace kvik {

// Returns the value of an environment variable; empty if it is not set. The environment is read
// only in src/main.
std::string environment(const std::string& name);

}  // namespace kvik
