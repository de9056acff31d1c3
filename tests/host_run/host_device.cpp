#include "host_run/host_device.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "backend/cuda/device/kernel_tables.h"
#include "host_run/cuda_words.h"

namespace kvik::host_run {
namespace {

constexpr size_t kAlignment = 256;
constexpr int kGarbage = 0x7b;

}  // namespace

HostDevice::HostDevice(const HostDeviceOptions& options)
    : info_{.name = "host run",
            .memory_bytes = options.memory_bytes,
            .n_processors = options.n_processors,
            .multiplies_fragments = options.multiplies_fragments} {}

HostDevice::~HostDevice() {
  for (const auto& [data, bytes] : buffers_) std::free(const_cast<std::byte*>(data));
}

const cuda::KernelTables& HostDevice::kernels() const {
  static const cuda::KernelTables kTables = {cuda::kRowKernels, cuda::kMatmulKernels,
                                             cuda::kAttentionKernels, cuda::kStateKernels,
                                             cuda::kLowRankKernels};
  return kTables;
}

Result<void> HostDevice::check_there() const {
  if (is_gone_) return fail(ErrorCode::kIo, "the GPU is gone: asked to be, in a test");
  return {};
}

// Whether the bytes are of one buffer.
Result<void> HostDevice::check_inside(const std::byte* data, size_t bytes) const {
  const std::scoped_lock lock(mutex_);
  auto behind = buffers_.upper_bound(data);
  if (behind != buffers_.begin()) {
    const auto& [first, n] = *std::prev(behind);
    if (data + bytes <= first + n) return {};
  }
  ADD_FAILURE() << bytes << " bytes that are not the device's";
  return fail(ErrorCode::kIo, "bytes that are not the device's");
}

Result<uint64_t> HostDevice::free_bytes() {
  TRY(check_there());
  return held_bytes_ < info_.memory_bytes ? info_.memory_bytes - held_bytes_ : 0;
}

Result<std::byte*> HostDevice::allocate(size_t bytes) {
  TRY(check_there());
  const std::scoped_lock lock(mutex_);
  if (held_bytes_ + bytes > info_.memory_bytes) {
    return fail(ErrorCode::kExhausted,
                fmt::format("{} more bytes of the GPU's memory, of which {} have {}", bytes,
                            held_bytes_, info_.memory_bytes));
  }
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
  std::memset(data, kGarbage, rounded);
  std::memset(data, 0, bytes);
  buffers_[data] = bytes;
  held_bytes_ += bytes;
  return data;
}

void HostDevice::free(std::byte* data) {
  const std::scoped_lock lock(mutex_);
  const auto found = buffers_.find(data);
  if (found == buffers_.end()) {
    ADD_FAILURE() << "memory given back twice";
    return;
  }
  held_bytes_ -= found->second;
  buffers_.erase(found);
  std::free(data);
}

Result<void> HostDevice::copy(std::byte* to, const std::byte* from, size_t bytes) {
  TRY(check_there());
  TRY(check_inside(to, bytes));
  TRY(check_inside(from, bytes));
  std::memcpy(to, from, bytes);
  return {};
}

Result<void> HostDevice::clear(std::byte* data, size_t bytes) {
  TRY(check_there());
  TRY(check_inside(data, bytes));
  std::memset(data, 0, bytes);
  return {};
}

Result<void> HostDevice::do_copy_in(std::byte* to, std::span<const std::byte> host) {
  TRY(check_there());
  TRY(check_inside(to, host.size()));
  std::memcpy(to, host.data(), host.size());
  return {};
}

Result<void> HostDevice::do_copy_out(std::span<std::byte> host, const std::byte* from) {
  TRY(check_there());
  TRY(check_inside(from, host.size()));
  std::memcpy(host.data(), from, host.size());
  return {};
}

Result<void> HostDevice::do_launch(const char* name, Start start, const cuda::Grid& grid,
                                   const void* task) {
  TRY(check_there());
  if (start(grid, task, nullptr) != 0) {
    ADD_FAILURE() << name << ": " << last_fault();
    return fail(ErrorCode::kIo, fmt::format("{}: {}", name, last_fault()));
  }
  return {};
}

}  // namespace kvik::host_run
