#pragma once

#include <cstdint>
#include <optional>

namespace kvik {

// Bytes that can be had without taking them from others; std::nullopt where the system does not
// say.
std::optional<uint64_t> available_memory_bytes();

// Bytes that this process could have if it were alone: the machine's, or its control group's limit
// where that is less.
std::optional<uint64_t> machine_memory_bytes();

}  // namespace kvik
