#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <thread>
#include <vector>

#include "backend/cuda/device/side_stream.h"

namespace kvik::host_run {

class HostDevice;

// The state of a HostDevice for its side streams. Not thread-safe.
class SideStreamLog {
 public:
  // The device's own order came to these bytes: streams that did not follow since may not use them.
  void touch(const std::byte* data, size_t bytes);
  uint64_t n_touches() const { return first_ + touches_.size(); }
  bool is_touched(const std::byte* data, size_t bytes, uint64_t since) const;

  // Errors: kUnsupported where pins are refused, and of pages of the system that are pinned already
  // (what drivers say to that is not documented).
  Result<void> pin(std::span<std::byte> host);
  void unpin(std::span<std::byte> host);
  void refuse_pins() { refuses_pins_ = true; }
  bool is_pinned(std::span<const std::byte> host) const;

  void note_wait() { ++n_waits_[std::this_thread::get_id()]; }
  uint64_t n_waits(std::thread::id thread) const;

 private:
  static constexpr size_t kMaxTouches = 1024;  // the newest

  struct Touch {
    const std::byte* data;
    size_t bytes;
  };
  std::deque<Touch> touches_;
  uint64_t first_ = 0;
  std::map<const std::byte*, size_t> pins_;
  bool refuses_pins_ = false;
  std::map<std::thread::id, uint64_t> n_waits_;
};

// A side stream with the latest possible order: a copy is performed only when something waits for
// it, and until then its destination contains garbage. The device's own order is the earliest
// possible. Bytes that the device uses without waiting for the copy are therefore wrong, and so are
// host bytes that change before the host waited for their copy.
class HostSideStream final : public cuda::SideStream {
 public:
  explicit HostSideStream(HostDevice& device) : device_(device) {}
  ~HostSideStream() override;

  Result<void> copy_in(uint32_t slot, std::byte* to, std::span<const std::byte> host) override;
  Result<void> copy_out(uint32_t slot, std::span<std::byte> host, const std::byte* from) override;
  Result<void> wait(uint32_t slot) override;
  Result<void> follow() override;
  Result<void> lead(uint32_t slot) override;

 private:
  struct Copy {
    uint32_t slot;
    std::byte* to;
    const std::byte* from;
    size_t bytes;
  };
  Result<void> add(const Copy& copy, const std::byte* on_device);
  void run_until(uint32_t slot);
  void run(size_t n_copies);
  void keep_host_bytes(uint32_t slot);
  void check_host_bytes(uint32_t slot);

  HostDevice& device_;  // its mutex guards the following members
  std::deque<Copy> copies_;
  struct HostBytes {
    const std::byte* data;
    std::vector<std::byte> bytes;
  };
  std::map<uint32_t, HostBytes> led_;  // copied for the device, and not waited for, by slot
  uint64_t followed_ = 0;
};

}  // namespace kvik::host_run
