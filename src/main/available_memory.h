#pragma once

#include <cstdint>
#include <optional>

namespace kvik {

// Bytes that can be had without taking them from others; std::nullopt where the system does not
// say.
std::optional<uint64_t> available_memory_bytes();

}  // namespace kvik
