#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "backend/cuda/device/side_stream.h"
#include "backend/cuda/runtime/checked.h"

namespace kvik::cuda {

// A CUDA stream in addition to the device's stream, with an event per slot.
class RuntimeSideStream final : public SideStream {
 public:
  RuntimeSideStream(int device, cudaStream_t main) : device_(device), main_(main) {}
  ~RuntimeSideStream() override {
    cudaSetDevice(device_);
    if (stream_) cudaStreamSynchronize(stream_);
    for (const cudaEvent_t event : copied_) cudaEventDestroy(event);
    if (main_event_) cudaEventDestroy(main_event_);
    if (stream_) cudaStreamDestroy(stream_);
  }
  RuntimeSideStream(const RuntimeSideStream&) = delete;
  RuntimeSideStream& operator=(const RuntimeSideStream&) = delete;

  Result<void> open(uint32_t n_slots) {
    TRY(select());
    TRY(checked(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a side stream"));
    TRY(checked(cudaEventCreateWithFlags(&main_event_, cudaEventDisableTiming), "an event"));
    while (copied_.size() < n_slots) {
      cudaEvent_t event = nullptr;
      // A thread that waits for the event sleeps instead of spinning.
      constexpr unsigned kFlags = cudaEventDisableTiming | cudaEventBlockingSync;
      TRY(checked(cudaEventCreateWithFlags(&event, kFlags), "an event"));
      copied_.push_back(event);
    }
    return {};
  }

  Result<void> copy_in(uint32_t slot, std::byte* to, std::span<const std::byte> host) override {
    return copy(slot, to, host.data(), host.size(), cudaMemcpyHostToDevice);
  }
  Result<void> copy_out(uint32_t slot, std::span<std::byte> host, const std::byte* from) override {
    return copy(slot, host.data(), from, host.size(), cudaMemcpyDeviceToHost);
  }
  Result<void> wait(uint32_t slot) override {
    TRY(select());
    return checked(cudaEventSynchronize(copied_[slot]), "a copy on a side stream");
  }

  // Waiting for an event waits for the work that precedes its last recording.
  Result<void> follow() override {
    TRY(select());
    TRY(checked(cudaEventRecord(main_event_, main_), "an event"));
    return checked(cudaStreamWaitEvent(stream_, main_event_, 0), "ordering two streams");
  }
  Result<void> lead(uint32_t slot) override {
    TRY(select());
    return checked(cudaStreamWaitEvent(main_, copied_[slot], 0), "ordering two streams");
  }

 private:
  Result<void> select() const { return checked(cudaSetDevice(device_), "selecting the device"); }

  Result<void> copy(uint32_t slot, void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    TRY(select());
    TRY(checked(cudaMemcpyAsync(to, from, bytes, kind, stream_), "a copy on a side stream"));
    return checked(cudaEventRecord(copied_[slot], stream_), "an event");
  }

  const int device_;
  const cudaStream_t main_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t main_event_ = nullptr;  // recorded in main_ by the last follow()
  std::vector<cudaEvent_t> copied_;   // by slot; recorded in stream_ after each copy
};

}  // namespace kvik::cuda
