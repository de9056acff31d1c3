#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace kvik {

// Copies between a memory and host buffers, its slots, beside the operations, which neither wait
// for it nor are waited for. Made by Memory::make_lane().
//
//   out: begin_out(slot) ──▶ finish(slot) ──▶ the slot's buffer has the bytes
//   in:  finish(slot) ──▶ its buffer may be filled ──▶ begin_in(slot) ──▶ place(slot), or not
//
// begin_out() and place() stand in the order of operations, on their thread; the rest on any. Of
// one slot, calls are made one after the other, and what is begun again gives up what was begun
// before; a lane carries out, or in. Errors: the device's, after which the buffer's bytes are of no
// use.
class CopyLane {
 public:
  virtual ~CopyLane() = default;  // what was begun is done, or given up

  // What stands at `source` now will be in the slot's buffer; operations that follow may write to
  // `source`.
  virtual void begin_out(uint32_t slot, const std::byte* source) = 0;
  // The slot's buffer as it is now will be what place() brings.
  virtual Result<void> begin_in(uint32_t slot) = 0;
  // Operations that follow find the bytes of begin_in() at `destination`.
  virtual void place(uint32_t slot, std::byte* destination) = 0;
  // Waits until what was begun with the slot's buffer is done: it may be read, or written. At once
  // where nothing was.
  virtual Result<void> finish(uint32_t slot) = 0;
};

// Bytes of a slot that begin_in() was called for; borrowed. None: of a page that did not come.
class IncomingBytes {
 public:
  IncomingBytes() = default;
  IncomingBytes(CopyLane& lane, uint32_t slot, size_t n_bytes)
      : lane_(&lane), slot_(slot), n_bytes_(n_bytes) {}

  size_t size() const { return n_bytes_; }
  // See CopyLane::place().
  void place(std::byte* destination) const {
    if (lane_) lane_->place(slot_, destination);
  }

 private:
  CopyLane* lane_ = nullptr;
  uint32_t slot_ = 0;
  size_t n_bytes_ = 0;
};

}  // namespace kvik
