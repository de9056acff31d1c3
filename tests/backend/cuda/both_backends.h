#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/random_matrix.h"
#include "host_run/host_device.h"

// Runs every operation with the CPU's scalar instruction set, which is the specification, and with
// the CUDA backend's kernels in the host run. Both must give the same bytes.
namespace kvik::testing {

class BothBackends {
 public:
  explicit BothBackends(host_run::HostDeviceOptions options = {})
      : cpu_(std::move(*make_cpu_backend({.n_threads = 1, .isa = "scalar"}))) {
    auto device = std::make_unique<host_run::HostDevice>(options);
    device_ = device.get();
    cuda_ = std::move(*cuda::make_backend(std::move(device), 1));
    options.order = host_run::Order::kDescending;
    backwards_ = std::move(*cuda::make_backend(std::make_unique<host_run::HostDevice>(options), 1));
  }

  Backend& cpu() { return *cpu_; }
  Backend& cuda() { return *cuda_; }
  host_run::HostDevice& device() { return *device_; }

  // Checks that function(backend) returns the same on all backends, in any order of blocks and
  // threads.
  template <class Function>
  ::testing::AssertionResult agree(const Function& function) {
    const auto expected = function(*cpu_);
    for (Backend* backend : {cuda_.get(), backwards_.get()}) {
      const auto got = function(*backend);
      if (expected.size() != got.size()) return ::testing::AssertionFailure() << "sizes differ";
      for (size_t i = 0; i < got.size(); ++i) {
        if (std::memcmp(&expected[i], &got[i], sizeof(got[i])) == 0) continue;
        return ::testing::AssertionFailure()
               << "at " << i << " of " << got.size() << ": " << ::testing::PrintToString(got[i])
               << " against " << ::testing::PrintToString(expected[i])
               << (backend == cuda_.get() ? "" : ", from the last block on");
      }
    }
    return ::testing::AssertionSuccess();
  }

 private:
  std::unique_ptr<Backend> cpu_, cuda_, backwards_;
  host_run::HostDevice* device_;
};

// Rows in a backend's memory, with further columns that must not be modified.
class PlacedRows {
 public:
  static constexpr uint32_t kPadding = 3;
  static constexpr float kUntouched = 77.0f;

  PlacedRows(Backend& backend, uint32_t n_rows, uint32_t n_cols, std::vector<float> values = {})
      : memory_(backend.memory()),
        host_(size_t{n_rows} * (n_cols + kPadding), kUntouched),
        buffer_(memory_.allocate(host_.size() * sizeof(float))) {
    rows = {buffer_.floats(), n_rows, n_cols, n_cols + kPadding};
    for (size_t i = 0; i < values.size(); ++i) {
      host_[i / n_cols * rows.stride + i % n_cols] = values[i];
    }
    memory_.copy_in(buffer_.data(), std::as_bytes(std::span(host_)));
  }

  // Returns all values, including the further columns.
  std::vector<float> values() {
    memory_.copy_out(std::as_writable_bytes(std::span(host_)), buffer_.data());
    return host_;
  }

  Rows rows;

 private:
  Memory& memory_;
  std::vector<float> host_;
  Buffer buffer_;
};

// Copies floats to a backend's memory.
inline Buffer placed(Backend& backend, const std::vector<float>& values) {
  Buffer buffer = backend.memory().allocate(std::max<size_t>(1, values.size()) * sizeof(float));
  backend.memory().copy_in(buffer.data(), std::as_bytes(std::span(values)));
  return buffer;
}

}  // namespace kvik::testing
