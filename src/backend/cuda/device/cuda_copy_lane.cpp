#include "backend/cuda/device/cuda_copy_lane.h"

#include "base/log.h"

namespace kvik::cuda {

Result<PinnedBytes> PinnedBytes::pin(Device& device, std::span<std::byte> host) {
  TRY(device.pin(host));
  return PinnedBytes(device, host);
}

CudaCopyLane::CudaCopyLane(Device& device, CudaMemory& memory,
                           std::vector<std::span<std::byte>> slots)
    : memory_(memory),
      slots_(std::move(slots)),
      n_bytes_(slots_.empty() ? 0 : slots_.front().size()),
      staging_(memory.allocate(slots_.size() * n_bytes_)) {
  for (const std::span<std::byte> slot : slots_) {
    auto pinned = PinnedBytes::pin(device, slot);
    if (!pinned) {
      log::warn("{}: copies of pages to and from tiers will block the engine",
                pinned.error().message);
      break;
    }
    pinned_.push_back(std::move(*pinned));
  }
  auto stream = device.make_side_stream(static_cast<uint32_t>(slots_.size()));
  if (!stream) exit_after_device_error(stream.error());
  stream_ = std::move(*stream);
  require(stream_->follow());  // after the staging memory was cleared
}

void CudaCopyLane::begin_out(uint32_t slot, const std::byte* source) {
  memory_.copy(staging(slot), source, n_bytes_);
  require(stream_->follow());
  require(stream_->copy_out(slot, slots_[slot], staging(slot)));
}

Result<void> CudaCopyLane::begin_in(uint32_t slot) {
  return stream_->copy_in(slot, staging(slot), slots_[slot]);
}

// Once the bytes have been copied to `destination`, the side stream may write to the staging memory
// again.
void CudaCopyLane::place(uint32_t slot, std::byte* destination) {
  require(stream_->lead(slot));
  memory_.copy(destination, staging(slot), n_bytes_);
  require(stream_->follow());
}

}  // namespace kvik::cuda
