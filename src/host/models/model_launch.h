#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace kvik {

// Command line and memory of a model's server.
struct ModelLaunch {
  std::vector<std::string> arguments;    // the first one is the program's path
  std::vector<std::string> environment;  // NAME=VALUE
  uint64_t planned_bytes = 0;            // memory of the process
  std::string kept_folder;               // in memory, where it leaves KV pages; empty: none
};

// Removes the least recently used KV pages from such a folder, until it has at most n_bytes.
using TrimKept = std::function<Result<void>(const std::string& folder, uint64_t n_bytes)>;

}  // namespace kvik
