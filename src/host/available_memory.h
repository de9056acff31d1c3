#pragma once

#include <cstdint>
#include <optional>

namespace kvik {

// Returns the memory that is available without swapping, in bytes; std::nullopt if the system does
// not report it.
std::optional<uint64_t> available_memory_bytes();

// Returns the memory of the machine, or the limit of the process's control group if that is less.
std::optional<uint64_t> machine_memory_bytes();

}  // namespace kvik
