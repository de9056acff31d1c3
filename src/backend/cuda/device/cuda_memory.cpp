#include "backend/cuda/device/cuda_memory.h"

#include <algorithm>

#include "backend/cuda/device/cuda_copy_lane.h"

namespace kvik::cuda {

Result<Buffer> CudaMemory::try_allocate(size_t bytes) {
  if (bytes == 0) return Buffer();
  TRY_ASSIGN(std::byte * data, device_.allocate(bytes));
  return Buffer(*this, data, bytes);
}

Buffer CudaMemory::allocate(size_t bytes) {
  Result<Buffer> buffer = try_allocate(bytes);
  if (!buffer) exit_after_device_error(buffer.error());
  return std::move(*buffer);
}

void CudaMemory::grow(Buffer& buffer, size_t bytes) {
  if (buffer.size() >= bytes) return;
  buffer = Buffer();
  buffer = allocate(bytes);
}

void CudaMemory::copy_in(std::byte* destination, std::span<const std::byte> host) {
  require(stream_.submit_deferred());
  require(device_.copy_in(destination, host));
}

void CudaMemory::copy_out(std::span<std::byte> host, const std::byte* source) {
  require(stream_.submit_deferred());
  require(device_.copy_out(host, source));
}

void CudaMemory::copy(std::byte* destination, const std::byte* source, size_t bytes) {
  if (bytes == 0) return;
  require(stream_.submit_deferred());
  require(device_.copy(destination, source, bytes));
}

void CudaMemory::clear(std::byte* destination, size_t bytes) {
  if (bytes == 0) return;
  require(stream_.submit_deferred());
  require(device_.clear(destination, bytes));
}

std::unique_ptr<CopyLane> CudaMemory::make_lane(std::vector<std::span<std::byte>> slots) {
  return std::make_unique<CudaCopyLane>(device_, *this, std::move(slots));
}

std::optional<uint64_t> CudaMemory::free_bytes() {
  const Result<uint64_t> left = device_.free_bytes();
  if (!left) return std::nullopt;
  return *left - std::min(*left, kSpareBytes);
}

void CudaMemory::free(std::byte* data, size_t) {
  require(stream_.submit_deferred());
  device_.free(data);
}

}  // namespace kvik::cuda
