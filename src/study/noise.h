#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/backend.h"

namespace kvik {

// Returns n random values of the magnitude of keys, values and queries.
Buffer noise(Memory& memory, size_t n, uint32_t seed);

// Fills the first page with noise in all layers and copies it to the others, so that each page has
// its own memory to read.
void fill_with_noise(Backend& backend, const KvGeometry& geometry,
                     std::span<std::byte* const> pages, uint32_t seed);

}  // namespace kvik
