#pragma once

#include "backend/cuda/device/stream.h"
#include "backend/memory.h"

namespace kvik::cuda {

// Part of a device's free memory kept for what no plan counts: lists, graphs, and the driver's
// rounding of each buffer to 2 MiB.
inline constexpr uint64_t kSpareBytes = uint64_t{512} << 20;

// Device memory for the floors above. A failure ends the process (end_without_device()): weights
// are allocated by a function that may fail, and everything else was planned before.
class CudaMemory final : public Memory {
 public:
  CudaMemory(Device& device, Stream& stream) : device_(device), stream_(stream) {}

  Buffer allocate(size_t bytes) override;
  // Like allocate(), but may fail. Errors: those of Device::allocate().
  Result<Buffer> try_allocate(size_t bytes);
  // Makes the buffer at least that large; its contents are lost.
  void grow(Buffer& buffer, size_t bytes);

  void copy_in(std::byte* destination, std::span<const std::byte> host) override;
  void copy_out(std::span<std::byte> host, const std::byte* source) override;
  void copy(std::byte* destination, const std::byte* source, size_t bytes) override;
  void clear(std::byte* destination, size_t bytes) override;
  // Allocates staging memory of the size of the slots.
  std::unique_ptr<CopyLane> make_lane(std::vector<std::span<std::byte>> slots) override;
  std::optional<uint64_t> free_bytes() override;

 private:
  void free(std::byte* data, size_t bytes) override;

  Device& device_;
  Stream& stream_;
};

}  // namespace kvik::cuda
