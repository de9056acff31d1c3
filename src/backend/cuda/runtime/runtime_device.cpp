#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <optional>

#include "backend/cuda/device/staging_ring.h"
#include "backend/cuda/kernel_tables.h"
#include "backend/cuda/runtime/open_device.h"
#include "backend/cuda/runtime/runtime_graph.h"
#include "backend/cuda/runtime/runtime_side_stream.h"
#include "base/quantity.h"

namespace kvik::cuda {
namespace {

constexpr int kMinCapability = 75;  // the oldest compute capability that kernels are compiled for
constexpr int kFragmentsCapability = 80;  // has mma.m16n8k32 for bytes

}  // namespace

// A GPU accessed through the CUDA runtime, which is linked statically and finds the driver at run
// time. All work is submitted to one stream, in order, except that of side streams.
class RuntimeDevice final : public Device {
 public:
  RuntimeDevice(int number, DeviceInfo info) : number_(number), info_(std::move(info)) {}
  ~RuntimeDevice() override {
    if (staging_) cudaFreeHost(staging_);
    if (stream_) cudaStreamDestroy(stream_);
  }

  Result<void> open() {
    TRY(select());
    // Staging memory is optional: without it, copies to the device wait.
    if (cudaMallocHost(&staging_, kStagingBytes) == cudaSuccess) {
      ring_.emplace(std::span(static_cast<std::byte*>(staging_), kStagingBytes));
    } else {
      staging_ = nullptr;
    }
    return checked(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
  }

  const DeviceInfo& info() const override { return info_; }
  const KernelTables& kernels() const override {
    static const KernelTables kTables = {kRowKernels,   kMatmulKernels,  kAttentionKernels,
                                         kStateKernels, kLowRankKernels, kRouteKernels};
    return kTables;
  }

  Result<uint64_t> free_bytes() override {
    TRY(select());
    size_t n_free = 0, n_all = 0;
    TRY(checked(cudaMemGetInfo(&n_free, &n_all), "querying free memory"));
    return n_free;
  }

  Result<std::byte*> allocate(size_t bytes) override {
    TRY(select());
    void* data = nullptr;
    const cudaError_t error = cudaMalloc(&data, bytes);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // clears the error, which does not mean that the device failed
      const Result<uint64_t> left = free_bytes();
      return fail(ErrorCode::kExhausted,
                  fmt::format("out of GPU memory: {} requested, {} free", format_bytes(bytes),
                              format_bytes(left.value_or(0))));
    }
    TRY(checked(error, "memory"));
    auto* bytes_of_it = static_cast<std::byte*>(data);
    TRY(clear(bytes_of_it, bytes));
    return bytes_of_it;
  }
  // Errors are ignored, because a failed device has nothing to free.
  void free(std::byte* data) override {
    cudaSetDevice(number_);
    cudaFree(data);
  }

  Result<void> copy(std::byte* to, const std::byte* from, size_t bytes) override {
    TRY(select());
    return checked(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), "a copy");
  }
  Result<void> clear(std::byte* data, size_t bytes) override {
    TRY(select());
    return checked(cudaMemsetAsync(data, 0, bytes, stream_), "clearing");
  }
  Result<void> wait() override {
    TRY(select());
    return checked(cudaStreamSynchronize(stream_), "work submitted earlier");
  }

  Result<std::unique_ptr<SideStream>> make_side_stream(uint32_t n_slots) override {
    auto side = std::make_unique<RuntimeSideStream>(number_, stream_);
    TRY(side->open(n_slots));
    return side;
  }
  Result<void> pin(std::span<std::byte> host) override {
    TRY(select());
    const cudaError_t error = cudaHostRegister(host.data(), host.size(), cudaHostRegisterDefault);
    if (error == cudaSuccess) return {};
    cudaGetLastError();  // clears the error, which does not mean that the device failed
    return fail(ErrorCode::kUnsupported,
                fmt::format("cannot pin {} of host memory ({})", format_bytes(host.size()),
                            cudaGetErrorString(error)));
  }
  void unpin(std::span<std::byte> host) override {
    cudaSetDevice(number_);
    cudaHostUnregister(host.data());
  }

 private:
  // Selects the device on this thread, because CUDA's current device is per thread.
  Result<void> select() const { return checked(cudaSetDevice(number_), "selecting the device"); }

  // Small copies, such as the lists of a step, go through pinned memory without waiting. Other
  // copies must wait, because for pageable memory CUDA does not report when an asynchronous copy
  // has read the bytes.
  Result<void> do_copy_in(std::byte* to, std::span<const std::byte> host) override {
    TRY(select());
    if (ring_ && ring_->fits(host.size())) return copy_in_by_staging(to, host);
    TRY(checked(cudaMemcpyAsync(to, host.data(), host.size(), cudaMemcpyHostToDevice, stream_),
                "a copy in"));
    return wait();
  }
  Result<void> do_copy_out(std::span<std::byte> host, const std::byte* from) override {
    TRY(select());
    TRY(checked(cudaMemcpyAsync(host.data(), from, host.size(), cudaMemcpyDeviceToHost, stream_),
                "a copy out"));
    return wait();
  }
  Result<void> copy_in_by_staging(std::byte* to, std::span<const std::byte> host) {
    return ring_->copy(
        host, [&] { return wait(); },
        [&](std::span<const std::byte> place) {
          return checked(
              cudaMemcpyAsync(to, place.data(), place.size(), cudaMemcpyHostToDevice, stream_),
              "a copy in");
        });
  }
  Result<void> do_start(const Launch& launch) override {
    TRY(select());
    const int error = launch.code.start(launch.grid, launch.task.data(), stream_);
    return checked(static_cast<cudaError_t>(error), launch.name);
  }
  Result<std::unique_ptr<DeviceGraph>> do_make_graph(const LaunchList& launches) override {
    TRY(select());
    auto graph = std::make_unique<RuntimeGraph>(number_, stream_);
    TRY(graph->make(launches));
    return graph;
  }

  static constexpr size_t kStagingBytes = size_t{4} << 20;

  const int number_;
  const DeviceInfo info_;
  cudaStream_t stream_ = nullptr;
  void* staging_ = nullptr;  // pinned; null if it could not be allocated
  std::optional<StagingRing> ring_;
};

Result<std::unique_ptr<Device>> open_device(uint32_t number) {
  int n_devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&n_devices);
  int known = 0;
  constexpr int needed = CUDART_VERSION / 1000;
  if (error == cudaErrorInsufficientDriver && cudaDriverGetVersion(&known) == cudaSuccess &&
      known / 1000 < needed) {
    return fail(
        ErrorCode::kUnsupported,
        known == 0
            ? "no GPU can be used: there is no NVIDIA driver here"
            : fmt::format("no GPU can be used: the driver supports CUDA {}, expected {} or later",
                          known / 1000, needed));
  }
  if (error == cudaErrorInsufficientDriver || error == cudaErrorNoDevice ||
      error == cudaErrorStubLibrary || (error == cudaSuccess && n_devices == 0)) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("no GPU can be used: {}",
                            cudaGetErrorString(error == cudaSuccess ? cudaErrorNoDevice : error)));
  }
  if (error != cudaSuccess) {
    return fail(ErrorCode::kIo, fmt::format("no GPU can be used: the driver reports '{}'",
                                            cudaGetErrorString(error)));
  }
  if (number >= static_cast<uint32_t>(n_devices)) {
    return fail(
        ErrorCode::kNotFound,
        fmt::format("there is no GPU {}: the machine has {}, counted from 0", number, n_devices));
  }
  cudaDeviceProp properties;
  TRY(checked(cudaGetDeviceProperties(&properties, static_cast<int>(number)),
              "querying device properties"));
  const int capability = 10 * properties.major + properties.minor;
  if (capability < kMinCapability) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("the GPU {} has compute capability {}.{}: expected 7.5 or later",
                            properties.name, properties.major, properties.minor));
  }
  auto device = std::make_unique<RuntimeDevice>(
      static_cast<int>(number),
      DeviceInfo{.name = properties.name,
                 .memory_bytes = properties.totalGlobalMem,
                 .n_processors = static_cast<uint32_t>(properties.multiProcessorCount),
                 .multiplies_fragments = capability >= kFragmentsCapability});
  TRY(device->open());
  return device;
}

}  // namespace kvik::cuda
