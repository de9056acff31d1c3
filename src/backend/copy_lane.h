#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace kvik {

// Asynchronous copies between a backend memory and host buffers (slots), concurrent with
// operations. Made by Memory::make_lane().
//
//   out: begin_out(slot) ──▶ finish(slot) ──▶ the slot's buffer has the bytes
//   in:  finish(slot) ──▶ its buffer may be filled ──▶ begin_in(slot) ──▶ place(slot), or not
//
// begin_out() and place() are ordered with operations, on their thread; the other functions may be
// called on any thread. Calls for one slot follow each other, and beginning again abandons what was
// begun before. A lane copies either out or in. Errors: those of the device; the buffer's contents
// are then undefined.
class CopyLane {
 public:
  virtual ~CopyLane() = default;  // completes or abandons copies

  // Copies the present bytes at `source` to the slot's buffer; later operations may overwrite
  // `source`.
  virtual void begin_out(uint32_t slot, const std::byte* source) = 0;
  // Starts to transfer the slot's buffer for a later place().
  virtual Result<void> begin_in(uint32_t slot) = 0;
  // Places the bytes of begin_in() at `destination` for the operations that follow.
  virtual void place(uint32_t slot, std::byte* destination) = 0;
  // Waits for the slot's copy: its buffer may then be read or written. Returns at once if there is
  // none.
  virtual Result<void> finish(uint32_t slot) = 0;
};

// Bytes of a slot after begin_in(), borrowed; empty for a page that did not arrive.
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
