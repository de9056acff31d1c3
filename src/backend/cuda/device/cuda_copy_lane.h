#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/cuda/device/cuda_memory.h"
#include "backend/cuda/device/side_stream.h"

namespace kvik::cuda {

// Host memory that is pinned for a device, so that copies are asynchronous. The destructor unpins
// it.
class PinnedBytes {
 public:
  // Errors: those of Device::pin().
  static Result<PinnedBytes> pin(Device& device, std::span<std::byte> host);
  PinnedBytes(PinnedBytes&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)), host_(other.host_) {}
  PinnedBytes& operator=(PinnedBytes&&) = delete;
  ~PinnedBytes() {
    if (device_) device_->unpin(host_);
  }

 private:
  PinnedBytes(Device& device, std::span<std::byte> host) : device_(&device), host_(host) {}

  Device* device_;
  std::span<std::byte> host_;
};

// A lane with staging buffers in device memory, one per slot. begin_out() first copies the page to
// its staging buffer within the device, in the order of operations, so that the page may then be
// overwritten; the staging buffer is transferred to the host on a stream of its own. Copies in take
// the reverse way. If the slots can be pinned, the thread that calls operations never waits;
// otherwise begin_out() waits.
class CudaCopyLane final : public CopyLane {
 public:
  CudaCopyLane(Device& device, CudaMemory& memory, std::vector<std::span<std::byte>> slots);

  void begin_out(uint32_t slot, const std::byte* source) override;
  Result<void> begin_in(uint32_t slot) override;
  void place(uint32_t slot, std::byte* destination) override;
  Result<void> finish(uint32_t slot) override { return stream_->wait(slot); }

 private:
  std::byte* staging(uint32_t slot) const { return staging_.data() + slot * n_bytes_; }

  CudaMemory& memory_;
  const std::vector<std::span<std::byte>> slots_;
  const size_t n_bytes_;  // of a slot
  std::vector<PinnedBytes> pinned_;
  Buffer staging_;
  std::unique_ptr<SideStream> stream_;  // destroyed first, because its destructor waits for copies
};

}  // namespace kvik::cuda
