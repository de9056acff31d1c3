#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace kvik {

// Memory that the HTTP side holds for clients, without the KV cache: request bodies, data made from
// them, unread answers. Everything is counted before it is allocated, and rejected if there is no
// room, so that no number of clients exceeds the plan.
//
// A ledger may be part of another one, in which its bytes count too. Its counts exist as long as
// the last share, because an answer held by the engine may outlive the server. Any thread.
class ByteLedger {
 public:
  explicit ByteLedger(size_t limit_bytes, ByteLedger* whole = nullptr)
      : counts_(std::make_shared<Counts>(limit_bytes, whole ? whole->counts_ : nullptr)) {}
  ByteLedger(const ByteLedger&) = delete;
  ByteLedger& operator=(const ByteLedger&) = delete;

  size_t limit_bytes() const { return counts_->limit_bytes; }
  size_t used_bytes() const { return counts_->used_bytes.load(); }

  // Returns the maximum held since the last call.
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

// A holder's share of a ledger, released by the destructor. Without a ledger nothing is counted and
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

  // Returns false, and changes nothing, if there is no room.
  [[nodiscard]] bool grow(size_t n_bytes) {
    if (counts_ && !counts_->take(n_bytes)) return false;
    n_bytes_ += n_bytes;
    return true;
  }
  // Like grow(), to a total of n_bytes. Always succeeds if that is less.
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

// The ledgers of one server. Each kind of use is limited to a part, so that none can take it all.
// The parts add up to more than the whole: `all` limits their sum.
struct HttpMemory {
  explicit HttpMemory(size_t limit_bytes)
      : all(limit_bytes),
        connections(limit_bytes / 4, &all),
        bodies(limit_bytes / 2, &all),
        answers(limit_bytes / 2, &all) {}

  ByteLedger all;          // includes data made from a body while it is read
  ByteLedger connections;  // idle connections
  ByteLedger bodies;       // incoming bodies
  ByteLedger answers;      // running prompts, and unsent answers
};

}  // namespace kvik
