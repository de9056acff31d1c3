#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backend/copy_lane.h"

namespace kvik {

class Memory;

// A buffer in a backend's memory. The destructor frees it.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Memory& memory, std::byte* data, size_t size)
      : memory_(&memory), data_(data), size_(size) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer();

  std::byte* data() const { return data_; }
  float* floats() const { return reinterpret_cast<float*>(data_); }
  size_t size() const { return size_; }

 private:
  void swap(Buffer& other) {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  Memory* memory_ = nullptr;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Memory of a backend: host RAM for the CPU, device memory for a GPU. Its addresses are passed
// around as pointers, but only the backend may dereference them; other code copies in and out. May
// be used on any thread.
class Memory {
 public:
  virtual ~Memory() = default;

  // Allocates zeroed memory, aligned for the backend's widest loads. In host RAM, large buffers
  // take no physical memory before they are written. If memory runs out, host memory throws
  // std::bad_alloc, and device memory logs the error and ends the process: budgets are planned
  // before, so this is not expected.
  virtual Buffer allocate(size_t bytes) = 0;

  // Copies from host memory into this memory, and from this memory to host memory.
  virtual void copy_in(std::byte* destination, std::span<const std::byte> host) = 0;
  virtual void copy_out(std::span<std::byte> host, const std::byte* source) = 0;
  // Copies within this memory; source and destination do not overlap.
  virtual void copy(std::byte* destination, const std::byte* source, size_t bytes) = 0;
  // Sets bytes to zero.
  virtual void clear(std::byte* destination, size_t bytes) = 0;
  // Returns physical memory of a range to the system as far as possible. Its contents are lost.
  virtual void discard(std::byte*, size_t) {}

  // Creates a lane that copies between this memory and the given host buffers (slots). All slots
  // have the same size and must outlive the lane.
  virtual std::unique_ptr<CopyLane> make_lane(std::vector<std::span<std::byte>> slots) = 0;

  // Returns the free bytes of a device with its own memory; std::nullopt for host memory, or if the
  // device does not report it.
  virtual std::optional<uint64_t> free_bytes() { return std::nullopt; }

 private:
  friend class Buffer;
  virtual void free(std::byte* data, size_t bytes) = 0;
};

inline Buffer::~Buffer() {
  if (data_) memory_->free(data_, size_);
}

}  // namespace kvik
