#pragma once

#include <utility>
#include <vector>

#include "backend/copy_lane.h"
#include "backend/memory.h"

namespace kvik {

// A lane that copies synchronously, in begin_out() and place().
class SynchronousLane final : public CopyLane {
 public:
  SynchronousLane(Memory& memory, std::vector<std::span<std::byte>> slots)
      : memory_(memory), slots_(std::move(slots)) {}

  void begin_out(uint32_t slot, const std::byte* source) override {
    memory_.copy_out(slots_[slot], source);
  }
  Result<void> begin_in(uint32_t) override { return {}; }
  void place(uint32_t slot, std::byte* destination) override {
    memory_.copy_in(destination, slots_[slot]);
  }
  Result<void> finish(uint32_t) override { return {}; }

 private:
  Memory& memory_;
  const std::vector<std::span<std::byte>> slots_;
};

}  // namespace kvik
