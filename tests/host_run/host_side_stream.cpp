#include "host_run/host_side_stream.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "host_run/fault.h"
#include "host_run/host_device.h"

namespace kvik::host_run {
namespace {

constexpr int kInFlight = 0x3c;
constexpr size_t kSystemPage = 4096;

bool overlap(const std::byte* a, size_t a_bytes, const std::byte* b, size_t b_bytes) {
  const std::less<> before;
  return before(a, b + b_bytes) && before(b, a + a_bytes);
}

}  // namespace

void SideStreamLog::touch(const std::byte* data, size_t bytes) {
  touches_.push_back({data, bytes});
  if (touches_.size() <= kMaxTouches) return;
  touches_.pop_front();
  ++first_;
}

bool SideStreamLog::is_touched(const std::byte* data, size_t bytes, uint64_t since) const {
  for (uint64_t i = std::max(since, first_); i < n_touches(); ++i) {
    const Touch& touch = touches_[i - first_];
    if (overlap(touch.data, touch.bytes, data, bytes)) return true;
  }
  return false;
}

Result<void> SideStreamLog::pin(std::span<std::byte> host) {
  if (refuses_pins_) return fail(ErrorCode::kUnsupported, "pins are refused: as asked, in a test");
  const auto first = reinterpret_cast<uintptr_t>(host.data()) / kSystemPage;
  const auto last = reinterpret_cast<uintptr_t>(host.data() + host.size() - 1) / kSystemPage;
  for (const auto& [data, bytes] : pins_) {
    const bool is_before = reinterpret_cast<uintptr_t>(data + bytes - 1) / kSystemPage < first;
    const bool is_behind = reinterpret_cast<uintptr_t>(data) / kSystemPage > last;
    if (is_before || is_behind) continue;
    return fail(ErrorCode::kUnsupported, "a page of the system that is pinned already");
  }
  pins_[host.data()] = host.size();
  return {};
}

void SideStreamLog::unpin(std::span<std::byte> host) {
  if (pins_.erase(host.data()) == 0) report_fault("bytes that are not pinned");
}

bool SideStreamLog::is_pinned(std::span<const std::byte> host) const {
  const auto pin = pins_.find(host.data());
  return pin != pins_.end() && host.size() <= pin->second;
}

uint64_t SideStreamLog::n_waits(std::thread::id thread) const {
  const auto found = n_waits_.find(thread);
  return found == n_waits_.end() ? 0 : found->second;
}

// --- what HostDevice has for them ---

Result<std::unique_ptr<cuda::SideStream>> HostDevice::make_side_stream(uint32_t) {
  const std::scoped_lock lock(mutex_);
  TRY(check_there());
  return std::make_unique<HostSideStream>(*this);
}

Result<void> HostDevice::pin(std::span<std::byte> host) {
  const std::scoped_lock lock(mutex_);
  TRY(check_there());
  return side_stream_log_.pin(host);
}

void HostDevice::unpin(std::span<std::byte> host) {
  const std::scoped_lock lock(mutex_);
  side_stream_log_.unpin(host);
}

uint64_t HostDevice::n_side_waits(std::thread::id thread) {
  const std::scoped_lock lock(mutex_);
  return side_stream_log_.n_waits(thread);
}

// --- the stream ---

HostSideStream::~HostSideStream() {
  const std::scoped_lock lock(device_.mutex_);
  if (device_.check_there()) run(copies_.size());
}

Result<void> HostSideStream::add(const Copy& copy, const std::byte* on_device) {
  TRY(device_.check_there());
  TRY(device_.check_inside(on_device, copy.bytes));
  if (device_.side_stream_log_.is_touched(on_device, copy.bytes, followed_)) {
    report_fault("a side stream uses bytes of the device's own order, which it did not follow");
  }
  const GuardedMemory::Opened opened(device_.memory_);
  std::memset(copy.to, kInFlight, copy.bytes);
  copies_.push_back(copy);
  return {};
}

Result<void> HostSideStream::copy_in(uint32_t slot, std::byte* to,
                                     std::span<const std::byte> host) {
  const std::scoped_lock lock(device_.mutex_);
  check_host_bytes(slot);
  return add({slot, to, host.data(), host.size()}, to);
}

// Like CUDA, a copy into memory that is not pinned returns when it is complete.
Result<void> HostSideStream::copy_out(uint32_t slot, std::span<std::byte> host,
                                      const std::byte* from) {
  const std::scoped_lock lock(device_.mutex_);
  TRY(add({slot, host.data(), from, host.size()}, from));
  if (device_.side_stream_log_.is_pinned(host)) return {};
  device_.side_stream_log_.note_wait();
  run(copies_.size());
  return {};
}

Result<void> HostSideStream::wait(uint32_t slot) {
  const std::scoped_lock lock(device_.mutex_);
  TRY(device_.check_there());
  device_.side_stream_log_.note_wait();
  check_host_bytes(slot);
  run_until(slot);
  return {};
}

Result<void> HostSideStream::follow() {
  const std::scoped_lock lock(device_.mutex_);
  TRY(device_.check_there());
  followed_ = device_.side_stream_log_.n_touches();
  return {};
}

Result<void> HostSideStream::lead(uint32_t slot) {
  const std::scoped_lock lock(device_.mutex_);
  TRY(device_.check_there());
  keep_host_bytes(slot);
  run_until(slot);
  return {};
}

// A copy in that the device waits for: when it is made the host does not know.
void HostSideStream::keep_host_bytes(uint32_t slot) {
  for (const Copy& copy : copies_) {
    if (copy.slot != slot || !device_.memory_.has(copy.to, copy.bytes)) continue;
    led_[slot] = {copy.from, {copy.from, copy.from + copy.bytes}};
  }
}

void HostSideStream::check_host_bytes(uint32_t slot) {
  const auto found = led_.find(slot);
  if (found == led_.end()) return;
  const auto& [data, bytes] = found->second;
  if (!std::equal(bytes.begin(), bytes.end(), data)) {
    report_fault("host bytes that changed before their copy was waited for");
  }
  led_.erase(found);
}

// The newest copy of the slot, and all before it.
void HostSideStream::run_until(uint32_t slot) {
  for (size_t n = copies_.size(); n > 0; --n) {
    if (copies_[n - 1].slot == slot) return run(n);
  }
}

void HostSideStream::run(size_t n_copies) {
  const GuardedMemory::Opened opened(device_.memory_);
  for (size_t i = 0; i < n_copies; ++i) {
    const Copy& copy = copies_.front();
    std::memcpy(copy.to, copy.from, copy.bytes);
    copies_.pop_front();
  }
}

}  // namespace kvik::host_run
