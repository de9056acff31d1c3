#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace kvik {

// A model that a router may load.
struct ModelSpec {
  std::string name;                  // in requests
  std::vector<std::string> aliases;  // further names
  std::string path;                  // argument of open_model()
  // time after the last use until it is unloaded; std::nullopt: until memory is needed
  std::optional<Duration> keep_alive;
};

}  // namespace kvik
