#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvik {

// Command line and memory of a model's server.
struct ModelLaunch {
  std::vector<std::string> arguments;    // the first one is the program's path
  std::vector<std::string> environment;  // NAME=VALUE
  uint64_t planned_bytes = 0;            // memory of the process
  std::string kept_folder;               // in memory, where it leaves KV pages; empty: none
};

}  // namespace kvik
