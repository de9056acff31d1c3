#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace kvik::host_run {

// Memory that only a device may touch: a host that follows a pointer into it is ended by the
// system, as it would be where the memory is a GPU's. It opens for a kernel or a copy. Not safe for
// several threads.
class GuardedMemory {
 public:
  // At most so many bytes at once.
  explicit GuardedMemory(uint64_t bytes);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  // Full of garbage; null where there is no room. What lies between two buffers is no one's.
  std::byte* allocate(size_t bytes);
  // Returns whether there is such a buffer.
  bool free(const std::byte* data);
  // Returns whether the bytes are in one buffer.
  bool has(const std::byte* data, size_t bytes) const;
  uint64_t held_bytes() const { return held_bytes_; }

  // While one lives, the memory may be touched. They may be nested.
  class Opened {
   public:
    explicit Opened(GuardedMemory& memory) : memory_(memory) { memory_.open(); }
    ~Opened() { memory_.close(); }
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;

   private:
    GuardedMemory& memory_;
  };

 private:
  void open();
  void close();
  void protect(int protection);

  const uint64_t n_bytes_;
  std::byte* begin_ = nullptr;
  uint64_t n_used_ = 0;  // from the beginning on: what open() opens
  uint32_t n_open_ = 0;
  uint64_t held_bytes_ = 0;
  std::map<uint64_t, size_t> buffers_;  // by where they begin: bytes asked for
};

}  // namespace kvik::host_run
