#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace kvik {

// Copies pages asynchronously between a backend's memory and host buffers (slots), in parallel with
// operations. Created by Memory::make_lane(). A lane copies in one direction only.
//
//   out: begin_out(slot) ──▶ finish(slot) ──▶ the slot's buffer holds the bytes
//   in:  finish(slot) ──▶ the buffer may be filled ──▶ begin_in(slot) ──▶ place(slot), or not
//
// begin_out() and place() are called on the thread that calls operations, and are ordered with
// them. The other functions may be called on any thread. Calls for one slot must not overlap;
// beginning a new copy abandons the previous one. Errors: those of the device; the contents of the
// buffer are then undefined.
class CopyLane {
 public:
  virtual ~CopyLane() = default;  // completes or abandons copies in progress

  // Copies the bytes that are at `source` now to the slot's buffer. Later operations may overwrite
  // `source`.
  virtual void begin_out(uint32_t slot, const std::byte* source) = 0;
  // Starts to transfer the slot's buffer, for a later place().
  virtual Result<void> begin_in(uint32_t slot) = 0;
  // Copies the bytes of begin_in() to `destination`, where later operations will see them.
  virtual void place(uint32_t slot, std::byte* destination) = 0;
  // Waits for the slot's copy; afterwards its buffer may be read or written. Returns at once if no
  // copy is in progress.
  virtual Result<void> finish(uint32_t slot) = 0;
};

// A slot's bytes after begin_in(); empty for a page that did not arrive. Does not own them.
class IncomingBytes {
 public:
  IncomingBytes() = default;
  IncomingBytes(CopyLane& lane, uint32_t slot, size_t n_bytes)
      : lane_(&lane), slot_(slot), n_bytes_(n_bytes) {}

  size_t size() const { return n_bytes_; }
  // Copies the bytes to `destination`: see CopyLane::place().
  void place(std::byte* destination) const {
    if (lane_) lane_->place(slot_, destination);
  }

 private:
  CopyLane* lane_ = nullptr;
  uint32_t slot_ = 0;
  size_t n_bytes_ = 0;
};

}  // namespace kvik
