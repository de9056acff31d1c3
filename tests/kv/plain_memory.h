#pragma once

#include <cstring>

#include "backend/synchronous_lane.h"

namespace kvik {

// Host memory without a backend.
class PlainMemory final : public Memory {
 public:
  Buffer allocate(size_t bytes) override { return Buffer(*this, new std::byte[bytes](), bytes); }
  void copy_in(std::byte* destination, std::span<const std::byte> host) override {
    std::memcpy(destination, host.data(), host.size());
  }
  void copy_out(std::span<std::byte> host, const std::byte* source) override {
    std::memcpy(host.data(), source, host.size());
  }
  void copy(std::byte* destination, const std::byte* source, size_t bytes) override {
    std::memcpy(destination, source, bytes);
  }
  void clear(std::byte* destination, size_t bytes) override { std::memset(destination, 0, bytes); }
  std::unique_ptr<CopyLane> make_lane(std::vector<std::span<std::byte>> slots) override {
    return std::make_unique<SynchronousLane>(*this, std::move(slots));
  }

 private:
  void free(std::byte* data, size_t) override { delete[] data; }
};

}  // namespace kvik
