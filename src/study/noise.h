#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/backend.h"

namespace kvik {

// n values of the size that keys, values and queries have.
Buffer noise(Memory& memory, size_t n, uint32_t seed);

// Writes K and V of a page of noise tokens to the first page, in all layers, and copies it to the
// others: each is memory of its own, so that all are read.
void fill_with_noise(Backend& backend, const KvGeometry& geometry,
                     std::span<std::byte* const> pages, uint32_t seed);

}  // namespace kvik
