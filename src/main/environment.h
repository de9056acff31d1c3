#pragma once

#include <string>

namespace kvik {

// The value of an environment variable, empty where it is not set. Nothing else in the project
// reads the environment.
std::string environment(const std::string& name);

}  // namespace kvik
