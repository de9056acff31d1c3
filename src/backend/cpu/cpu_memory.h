#pragma once

#include "backend/memory.h"

namespace kvik::cpu {

// Host RAM. Buffers of 2 MiB and more are pages of their own, aligned for huge ones, and cost
// nothing before they are written; smaller ones come zeroed from the heap, aligned to 64 bytes.
class CpuMemory final : public Memory {
 public:
  Buffer allocate(size_t bytes) override;
  void copy_in(std::byte* destination, std::span<const std::byte> host) override;
  void copy_out(std::span<std::byte> host, const std::byte* source) override;
  void copy(std::byte* destination, const std::byte* source, size_t bytes) override;
  void clear(std::byte* destination, size_t bytes) override;

 private:
  void free(std::byte* data, size_t bytes) override;
};

}  // namespace kvik::cpu
