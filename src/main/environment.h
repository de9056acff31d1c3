#pragma once

#include <string>

namespace kvik {

// Returns the value of an environment variable; empty if it is not set. The environment is read
// only in src/main.
std::string environment(const std::string& name);
// Also removes the variable, so that child processes do not inherit it. Called before other threads
// start.
std::string take_environment(const std::string& name);

}  // namespace kvik
