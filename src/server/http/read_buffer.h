#pragma once

#include <array>
#include <cstddef>
#include <memory>

namespace kvik {

using ReadBuffer = std::array<char, size_t{16} << 10>;

// Returns the buffer of the calling thread: one for all connections, because most of them are idle
// most of the time. It is on the heap, because the shared library gets little thread-local memory.
inline ReadBuffer& read_buffer() {
  thread_local const auto buffer = std::make_unique<ReadBuffer>();
  return *buffer;
}

}  // namespace kvik
