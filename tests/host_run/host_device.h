#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "backend/cuda/device/device.h"
#include "host_run/grid.h"
#include "host_run/guarded_memory.h"
#include "host_run/host_run_environment.h"
#include "host_run/host_side_stream.h"

namespace kvik::host_run {

struct HostDeviceOptions {
  uint64_t memory_bytes = uint64_t{4} << 30;
  uint32_t n_processors = 4;
  bool multiplies_fragments = true;
  Order order = Order::kAscending;
  // Shared, for options are copied. Null: the device is this process's alone, and stays.
  std::shared_ptr<HostRunEnvironment> environment = nullptr;
};

// A device whose kernels run on the host, thread by thread. Its memory is closed to the host but
// for copies and kernels (GuardedMemory). What a GPU would leave undefined is a fault (fault.h).
// Trouble can be asked for.
class HostDevice final : public cuda::Device {
 public:
  explicit HostDevice(const HostDeviceOptions& options = {});

  const cuda::DeviceInfo& info() const override { return info_; }
  const cuda::KernelTables& kernels() const override;
  Result<uint64_t> free_bytes() override;
  Result<std::byte*> allocate(size_t bytes) override;
  void free(std::byte* data) override;
  Result<void> copy(std::byte* to, const std::byte* from, size_t bytes) override;
  Result<void> clear(std::byte* data, size_t bytes) override;
  Result<void> wait() override {
    ++n_waits_;
    return check_there();
  }
  Result<std::unique_ptr<cuda::SideStream>> make_side_stream(uint32_t n_slots) override;
  Result<void> pin(std::span<std::byte> host) override;
  void unpin(std::span<std::byte> host) override;

  // From now on every launch and every copy fails, as of a device that is gone.
  void disappear() { is_gone_ = true; }
  // No more than that from now on.
  void limit_memory(uint64_t bytes) { info_.memory_bytes = bytes; }
  uint64_t held_bytes() const { return memory_.held_bytes(); }
  uint64_t n_waits() const { return n_waits_; }
  // State of that thread for side streams.
  uint64_t n_side_waits(std::thread::id thread);
  // From now on no graph is made.
  void refuse_graphs() { makes_graphs_ = false; }
  void refuse_pins() { side_stream_log_.refuse_pins(); }

 private:
  class Graph;
  friend class HostSideStream;

  Result<void> do_copy_in(std::byte* to, std::span<const std::byte> host) override;
  Result<void> do_copy_out(std::span<std::byte> host, const std::byte* from) override;
  Result<void> do_start(const cuda::Launch& launch) override;
  Result<std::unique_ptr<cuda::DeviceGraph>> do_make_graph(
      const cuda::LaunchList& launches) override;
  Result<void> check_there() const;
  Result<void> check_inside(const std::byte* data, size_t bytes) const;

  cuda::DeviceInfo info_;
  const Order order_;
  const std::shared_ptr<HostRunEnvironment> environment_;
  std::atomic<bool> is_gone_ = false;
  bool makes_graphs_ = true;
  uint64_t n_waits_ = 0;
  std::mutex mutex_;  // tiers copy on threads of their own
  GuardedMemory memory_;
  SideStreamLog side_stream_log_;
};

}  // namespace kvik::host_run
