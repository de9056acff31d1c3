#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backend/cuda/device/launch.h"
#include "backend/cuda/device/side_stream.h"
#include "base/result.h"

namespace kvik::cuda {

struct KernelTables;

struct DeviceInfo {
  std::string name;
  uint64_t memory_bytes = 0;
  uint32_t n_processors = 1;
  bool multiplies_fragments = false;  // has mma.m16n8k32 for bytes: sm_80 and later
};

// Counts of the work sent to a device since it was opened, without side streams.
struct DeviceCounters {
  uint64_t n_launches = 0;  // kernel launches, within a graph or individual
  uint64_t n_graphs = 0, n_graph_runs = 0, n_graph_changes = 0;
  uint64_t n_copies_in = 0, n_copies_out = 0;
  uint64_t bytes_in = 0, bytes_out = 0;
};

// A sequence of launches that is recorded once and then submitted as a whole.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  // Changes the grid and the task of launch i. Its kernel must stay the same.
  virtual Result<void> change(size_t i, const Launch& launch) = 0;
  virtual Result<void> run() = 0;
};

// A GPU: its memory and its kernels. Work is executed in the order of submission. copy_out() waits
// for all earlier work. Other functions may return before their work is done, and an error may be
// reported by a later call.
//
// Kernels are launched from one thread; memory functions may be called on any thread. Errors:
// kExhausted if there is no memory; kIo if the device failed, after which every call fails.
class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;
  virtual const KernelTables& kernels() const = 0;
  virtual Result<uint64_t> free_bytes() = 0;

  // Returns zeroed memory aligned to 256 bytes; bytes > 0.
  virtual Result<std::byte*> allocate(size_t bytes) = 0;
  virtual void free(std::byte* data) = 0;

  Result<void> copy_in(std::byte* to, std::span<const std::byte> host) {
    if (host.empty()) return {};
    n_copies_in_.fetch_add(1, std::memory_order_relaxed);
    bytes_in_.fetch_add(host.size(), std::memory_order_relaxed);
    return do_copy_in(to, host);
  }
  Result<void> copy_out(std::span<std::byte> host, const std::byte* from) {
    if (host.empty()) return {};
    n_copies_out_.fetch_add(1, std::memory_order_relaxed);
    bytes_out_.fetch_add(host.size(), std::memory_order_relaxed);
    return do_copy_out(host, from);
  }
  // Copies within device memory; source and destination do not overlap.
  virtual Result<void> copy(std::byte* to, const std::byte* from, size_t bytes) = 0;
  virtual Result<void> clear(std::byte* data, size_t bytes) = 0;
  // Waits for all submitted work.
  virtual Result<void> wait() = 0;

  // Creates a stream of copies with n_slots slots. May be called on any thread. The device must
  // outlive the stream.
  virtual Result<std::unique_ptr<SideStream>> make_side_stream(uint32_t n_slots) = 0;
  // Pins host memory, so that side streams copy asynchronously, until unpin() is called with the
  // same bytes. Errors: kUnsupported if the system does not allow it; the device remains usable.
  virtual Result<void> pin(std::span<std::byte> host) = 0;
  virtual void unpin(std::span<std::byte> host) = 0;

  Result<void> start(const Launch& launch) {
    n_launches_.fetch_add(1, std::memory_order_relaxed);
    return do_start(launch);
  }
  Result<std::unique_ptr<DeviceGraph>> make_graph(const LaunchList& launches) {
    n_graphs_.fetch_add(1, std::memory_order_relaxed);
    return do_make_graph(launches);
  }
  Result<void> change(DeviceGraph& graph, size_t i, const Launch& launch) {
    n_graph_changes_.fetch_add(1, std::memory_order_relaxed);
    return graph.change(i, launch);
  }
  Result<void> run(DeviceGraph& graph, size_t n_launches) {
    n_graph_runs_.fetch_add(1, std::memory_order_relaxed);
    n_launches_.fetch_add(n_launches, std::memory_order_relaxed);
    return graph.run();
  }

  DeviceCounters counters() const {
    return {.n_launches = n_launches_.load(),
            .n_graphs = n_graphs_.load(),
            .n_graph_runs = n_graph_runs_.load(),
            .n_graph_changes = n_graph_changes_.load(),
            .n_copies_in = n_copies_in_.load(),
            .n_copies_out = n_copies_out_.load(),
            .bytes_in = bytes_in_.load(),
            .bytes_out = bytes_out_.load()};
  }

 private:
  virtual Result<void> do_copy_in(std::byte* to, std::span<const std::byte> host) = 0;
  virtual Result<void> do_copy_out(std::span<std::byte> host, const std::byte* from) = 0;
  virtual Result<void> do_start(const Launch& launch) = 0;
  virtual Result<std::unique_ptr<DeviceGraph>> do_make_graph(const LaunchList& launches) = 0;

  std::atomic<uint64_t> n_launches_ = 0, n_graphs_ = 0, n_graph_runs_ = 0, n_graph_changes_ = 0;
  std::atomic<uint64_t> n_copies_in_ = 0, n_copies_out_ = 0;
  std::atomic<uint64_t> bytes_in_ = 0, bytes_out_ = 0;
};

// For operations that return no error and cannot continue without the device. Log the error and end
// the process at once: device memory is lost, so no request could be answered. Pages stored in
// tiers remain. require() does this only if `done` is an error.
void require(const Result<void>& done);
[[noreturn]] void exit_after_device_error(const Error& error);

}  // namespace kvik::cuda
