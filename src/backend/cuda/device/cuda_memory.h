#pragma once

#include "backend/cuda/device/stream.h"
#include "backend/memory.h"

namespace kvik::cuda {

// Device memory reserved for uses that no plan counts: lists, graphs, and the driver's rounding of
// each buffer up to 2 MiB.
inline constexpr uint64_t kSpareBytes = uint64_t{512} << 20;

// Device memory as a Memory. A failure ends the process (exit_after_device_error()): only weights
// are allocated with try_allocate(), which may fail, and all other memory was planned before.
class CudaMemory final : public Memory {
 public:
  CudaMemory(Device& device, Stream& stream) : device_(device), stream_(stream) {}

  Buffer allocate(size_t bytes) override;
  // Like allocate(), but returns an error. Errors: those of Device::allocate().
  Result<Buffer> try_allocate(size_t bytes);
  // Reallocates the buffer if it is smaller than `bytes`. Its contents are then lost.
  void grow(Buffer& buffer, size_t bytes);

  void copy_in(std::byte* destination, std::span<const std::byte> host) override;
  void copy_out(std::span<std::byte> host, const std::byte* source) override;
  void copy(std::byte* destination, const std::byte* source, size_t bytes) override;
  void clear(std::byte* destination, size_t bytes) override;
  // Also allocates staging memory in the device, as large as the slots together.
  std::unique_ptr<CopyLane> make_lane(std::vector<std::span<std::byte>> slots) override;
  // Returns the free bytes of the device, less kSpareBytes.
  std::optional<uint64_t> free_bytes() override;

 private:
  void free(std::byte* data, size_t bytes) override;

  Device& device_;
  Stream& stream_;
};

}  // namespace kvik::cuda
