#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <utility>

namespace kvik {

// Bytes that the HTTP side holds for its clients, beside the cache: bodies that are read, what is
// made of them, answers that nobody has read yet. All is counted before it is held, and what finds
// no room is refused; so no number of clients takes memory beyond the plan.
//
// A ledger may be a part of another one: what it holds counts there as well. Any thread.
class ByteLedger {
 public:
  explicit ByteLedger(size_t limit_bytes, ByteLedger* whole = nullptr)
      : limit_bytes_(limit_bytes), whole_(whole) {}
  ByteLedger(const ByteLedger&) = delete;
  ByteLedger& operator=(const ByteLedger&) = delete;

  size_t limit_bytes() const { return limit_bytes_; }
  size_t used_bytes() const { return used_bytes_.load(); }

  // The most that was held since the last call.
  size_t take_peak_bytes() { return peak_bytes_.exchange(used_bytes_.load()); }

 private:
  friend class ByteShare;

  bool take(size_t n_bytes) {
    size_t used = used_bytes_.load();
    do {
      if (n_bytes > limit_bytes_ - std::min(used, limit_bytes_)) return false;
    } while (!used_bytes_.compare_exchange_weak(used, used + n_bytes));
    if (whole_ && !whole_->take(n_bytes)) {
      used_bytes_ -= n_bytes;
      return false;
    }
    size_t peak = peak_bytes_.load();
    while (peak < used + n_bytes && !peak_bytes_.compare_exchange_weak(peak, used + n_bytes))
      continue;
    return true;
  }
  void give_back(size_t n_bytes) {
    used_bytes_ -= n_bytes;
    if (whole_) whole_->give_back(n_bytes);
  }

  const size_t limit_bytes_;
  ByteLedger* const whole_;
  std::atomic<size_t> used_bytes_{0};
  std::atomic<size_t> peak_bytes_{0};
};

// What one holder has of a ledger; given back when it dies. Without a ledger nothing is counted and
// everything is allowed. The ledger outlives it, or it is released before.
class ByteShare {
 public:
  ByteShare() = default;
  explicit ByteShare(ByteLedger& ledger) : ledger_(&ledger) {}
  ByteShare(ByteShare&& other) noexcept
      : ledger_(other.ledger_), n_bytes_(std::exchange(other.n_bytes_, 0)) {}
  ByteShare& operator=(ByteShare&& other) noexcept {
    release();
    ledger_ = other.ledger_;
    n_bytes_ = std::exchange(other.n_bytes_, 0);
    return *this;
  }
  ~ByteShare() { release(); }

  size_t n_bytes() const { return n_bytes_; }

  // False where there is no room: nothing has changed then.
  [[nodiscard]] bool grow(size_t n_bytes) {
    if (ledger_ && !ledger_->take(n_bytes)) return false;
    n_bytes_ += n_bytes;
    return true;
  }
  [[nodiscard]] bool resize(size_t n_bytes) {
    if (n_bytes > n_bytes_) return grow(n_bytes - n_bytes_);
    if (ledger_) ledger_->give_back(n_bytes_ - n_bytes);
    n_bytes_ = n_bytes;
    return true;
  }
  void release() { static_cast<void>(resize(0)); }

 private:
  ByteLedger* ledger_ = nullptr;
  size_t n_bytes_ = 0;
};

// The ledgers of one server. No kind of use may take what the others need.
struct HttpMemory {
  explicit HttpMemory(size_t limit_bytes)
      : all(limit_bytes),
        connections(limit_bytes / 4, &all),
        bodies(limit_bytes / 2, &all),
        answers(limit_bytes / 2, &all) {}

  ByteLedger all;          // and what is made of a body, while it is read
  ByteLedger connections;  // that say nothing
  ByteLedger bodies;       // that come in
  ByteLedger answers;      // prompts that run, and what has not been sent yet
};

}  // namespace kvik
