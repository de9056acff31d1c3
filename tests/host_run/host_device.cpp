#include "host_run/host_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backend/cuda/kernel_tables.h"
#include "base/check.h"
#include "host_run/cuda_words.h"
#include "host_run/fault.h"

namespace kvik::host_run {
HostDevice::HostDevice(const HostDeviceOptions& options)
    : info_{.name = "host run",
            .memory_bytes = options.memory_bytes,
            .n_processors = options.n_processors,
            .multiplies_fragments = options.multiplies_fragments},
      order_(options.order),
      environment_(options.environment),
      memory_(options.memory_bytes) {}

const cuda::KernelTables& HostDevice::kernels() const {
  static const cuda::KernelTables kTables = {cuda::kRowKernels,       cuda::kMatmulKernels,
                                             cuda::kAttentionKernels, cuda::kStateKernels,
                                             cuda::kLowRankKernels,   cuda::kRouteKernels};
  return kTables;
}

Result<void> HostDevice::check_there() const {
  if (is_gone_) return fail(ErrorCode::kIo, "the GPU is gone: asked to be, in a test");
  return {};
}

Result<void> HostDevice::check_inside(const std::byte* data, size_t bytes) const {
  if (memory_.has(data, bytes)) return {};
  report_fault(fmt::format("{} bytes that are not the device's", bytes));
  return fail(ErrorCode::kIo, "bytes that are not the device's");
}

Result<uint64_t> HostDevice::free_bytes() {
  const std::scoped_lock lock(mutex_);
  TRY(check_there());
  const uint64_t others = environment_ ? environment_->held_by_others() : 0;
  return info_.memory_bytes - std::min(info_.memory_bytes, memory_.held_bytes() + others);
}

Result<std::byte*> HostDevice::allocate(size_t bytes) {
  const std::scoped_lock lock(mutex_);
  TRY(check_there());
  const bool fits = memory_.held_bytes() + bytes <= info_.memory_bytes;
  std::byte* data = fits ? memory_.allocate(bytes) : nullptr;
  if (data && environment_ && !environment_->take(bytes, info_.memory_bytes)) {
    memory_.free(data);
    data = nullptr;
  }
  if (!data) {
    return fail(
        ErrorCode::kExhausted,
        fmt::format("there are no {} more bytes of the GPU's memory: {} of {} are held here", bytes,
                    memory_.held_bytes(), info_.memory_bytes));
  }
  const GuardedMemory::Opened opened(memory_);
  std::memset(data, 0, bytes);
  side_stream_log_.touch(data, bytes);
  return data;
}

void HostDevice::free(std::byte* data) {
  const std::scoped_lock lock(mutex_);
  const uint64_t held_before = memory_.held_bytes();
  if (!memory_.free(data)) return report_fault("memory given back twice");
  if (environment_) environment_->give_back(held_before - memory_.held_bytes());
}

Result<void> HostDevice::copy(std::byte* to, const std::byte* from, size_t bytes) {
  const std::scoped_lock lock(mutex_);
  TRY(check_there());
  TRY(check_inside(to, bytes));
  TRY(check_inside(from, bytes));
  const GuardedMemory::Opened opened(memory_);
  std::memcpy(to, from, bytes);
  side_stream_log_.touch(to, bytes);
  side_stream_log_.touch(from, bytes);
  return {};
}

Result<void> HostDevice::clear(std::byte* data, size_t bytes) {
  const std::scoped_lock lock(mutex_);
  TRY(check_there());
  TRY(check_inside(data, bytes));
  const GuardedMemory::Opened opened(memory_);
  std::memset(data, 0, bytes);
  side_stream_log_.touch(data, bytes);
  return {};
}

Result<void> HostDevice::do_copy_in(std::byte* to, std::span<const std::byte> host) {
  const std::scoped_lock lock(mutex_);
  TRY(check_there());
  TRY(check_inside(to, host.size()));
  const GuardedMemory::Opened opened(memory_);
  std::memcpy(to, host.data(), host.size());
  side_stream_log_.touch(to, host.size());
  return {};
}

Result<void> HostDevice::do_copy_out(std::span<std::byte> host, const std::byte* from) {
  const std::scoped_lock lock(mutex_);
  TRY(check_there());
  TRY(check_inside(from, host.size()));
  const GuardedMemory::Opened opened(memory_);
  std::memcpy(host.data(), from, host.size());
  return {};
}

// A graph has its own copy of the arguments, so that updates that were forgotten show in the bytes.
class HostDevice::Graph final : public cuda::DeviceGraph {
 public:
  Graph(HostDevice& device, const cuda::LaunchList& launches)
      : device_(device), launches_(launches) {}

  Result<void> change(size_t i, const cuda::Launch& launch) override {
    CHECK(launches_[i].code == launch.code && launches_[i].task.size() == launch.task.size());
    launches_.change(i, launch);
    return {};
  }
  Result<void> run() override {
    for (size_t i = 0; i < launches_.size(); ++i) TRY(device_.do_start(launches_[i]));
    return {};
  }

 private:
  HostDevice& device_;
  cuda::LaunchList launches_;
};

Result<std::unique_ptr<cuda::DeviceGraph>> HostDevice::do_make_graph(
    const cuda::LaunchList& launches) {
  const std::scoped_lock lock(mutex_);
  TRY(check_there());
  if (!makes_graphs_) return fail(ErrorCode::kUnsupported, "no graphs: asked for, in a test");
  return std::make_unique<Graph>(*this, launches);
}

Result<void> HostDevice::do_start(const cuda::Launch& launch) {
  const std::scoped_lock lock(mutex_);
  if (environment_ && !environment_->is_device_there()) is_gone_ = true;
  TRY(check_there());
  const GuardedMemory::Opened opened(memory_);
  set_order(order_);
  if (launch.code.start(launch.grid, launch.task.data(), nullptr) != 0) {
    report_fault(fmt::format("{}: {}", launch.name, last_fault()));
    return fail(ErrorCode::kIo, fmt::format("{}: {}", launch.name, last_fault()));
  }
  return {};
}

}  // namespace kvik::host_run
