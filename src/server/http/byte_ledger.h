#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace kvik {

// Bytes that the HTTP side holds for its clients, beside the cache: bodies that are read, what is
// made of them, answers that nobody has read yet. All is counted before it is held, and what finds
// no room is refused; so no number of clients takes memory beyond the plan.
//
// A ledger may be a part of another one: what it holds counts there as well. Its counts live as
// long as the last share: an answer that the engine holds may outlive the server. Any thread.
class ByteLedger {
 public:
  explicit ByteLedger(size_t limit_bytes, ByteLedger* whole = nullptr)
      : counts_(std::make_shared<Counts>(limit_bytes, whole ? whole->counts_ : nullptr)) {}
  ByteLedger(const ByteLedger&) = delete;
  ByteLedger& operator=(const ByteLedger&) = delete;

  size_t limit_bytes() const { return counts_->limit_bytes; }
  size_t used_bytes() const { return counts_->used_bytes.load(); }

  // The most that was held since the last call.
  size_t take_peak_bytes() { return counts_->peak_bytes.exchange(used_bytes()); }

 private:
  friend class ByteShare;

  struct Counts {
    Counts(size_t limit, std::shared_ptr<Counts> of_whole)
        : limit_bytes(limit), whole(std::move(of_whole)) {}

    bool take(size_t n_bytes) {
      size_t used = used_bytes.load();
      do {
        if (n_bytes > limit_bytes - std::min(used, limit_bytes)) return false;
      } while (!used_bytes.compare_exchange_weak(used, used + n_bytes));
      if (whole && !whole->take(n_bytes)) {
        used_bytes -= n_bytes;
        return false;
      }
      size_t peak = peak_bytes.load();
      while (peak < used + n_bytes && !peak_bytes.compare_exchange_weak(peak, used + n_bytes))
        continue;
      return true;
    }
    void give_back(size_t n_bytes) {
      used_bytes -= n_bytes;
      if (whole) whole->give_back(n_bytes);
    }

    const size_t limit_bytes;
    const std::shared_ptr<Counts> whole;
    std::atomic<size_t> used_bytes{0};
    std::atomic<size_t> peak_bytes{0};
  };

  const std::shared_ptr<Counts> counts_;
};

// What one holder has of a ledger; given back when it dies. Without a ledger nothing is counted and
// everything is allowed.
class ByteShare {
 public:
  ByteShare() = default;
  explicit ByteShare(ByteLedger& ledger) : counts_(ledger.counts_) {}
  ByteShare(ByteShare&& other) noexcept
      : counts_(other.counts_), n_bytes_(std::exchange(other.n_bytes_, 0)) {}
  ByteShare& operator=(ByteShare&& other) noexcept {
    release();
    counts_ = other.counts_;
    n_bytes_ = std::exchange(other.n_bytes_, 0);
    return *this;
  }
  ~ByteShare() { release(); }

  size_t n_bytes() const { return n_bytes_; }

  // False where there is no room: nothing has changed then.
  [[nodiscard]] bool grow(size_t n_bytes) {
    if (counts_ && !counts_->take(n_bytes)) return false;
    n_bytes_ += n_bytes;
    return true;
  }
  [[nodiscard]] bool resize(size_t n_bytes) {
    if (n_bytes > n_bytes_) return grow(n_bytes - n_bytes_);
    if (counts_) counts_->give_back(n_bytes_ - n_bytes);
    n_bytes_ = n_bytes;
    return true;
  }
  void release() { static_cast<void>(resize(0)); }

 private:
  std::shared_ptr<ByteLedger::Counts> counts_;  // null: nothing is counted
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
