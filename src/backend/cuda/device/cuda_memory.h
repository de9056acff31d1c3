#pragma once

#include "backend/cuda/device/stream.h"
#include "backend/memory.h"

namespace kvik::cuda {

// Of what a device has left, so much is for what no plan counts: lists, graphs, and what a driver
// rounds each buffer up by, to 2 MiB.
inline constexpr uint64_t kSpareBytes = uint64_t{512} << 20;

// A device's memory as the floors above see it. What fails here ends the process
// (end_without_device()): weights ask for memory in a way that may fail, and all else was planned
// before.
class CudaMemory final : public Memory {
 public:
  CudaMemory(Device& device, Stream& stream) : device_(device), stream_(stream) {}

  Buffer allocate(size_t bytes) override;
  // As allocate(), where there may be none. Errors: those of Device::allocate().
  Result<Buffer> try_allocate(size_t bytes);
  // At least as many bytes, of which none is kept.
  void grow(Buffer& buffer, size_t bytes);

  void copy_in(std::byte* destination, std::span<const std::byte> host) override;
  void copy_out(std::span<std::byte> host, const std::byte* source) override;
  void copy(std::byte* destination, const std::byte* source, size_t bytes) override;
  void clear(std::byte* destination, size_t bytes) override;
  // With as many bytes of staging in this memory as the slots have.
  std::unique_ptr<CopyLane> make_lane(std::vector<std::span<std::byte>> slots) override;
  std::optional<uint64_t> free_bytes() override;

 private:
  void free(std::byte* data, size_t bytes) override;

  Device& device_;
  Stream& stream_;
};

}  // namespace kvik::cuda
