#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "engine/sample/constraint.h"
#include "support/counting_constraint.h"

namespace kvik {

// A CountingConstraint with slow parts at some tokens: a small effort does not suffice there, and a
// full effort ends when the test opens the gate. No clock is involved.
class SlowConstraint final : public Constraint {
 public:
  // Blocks full efforts until it is opened.
  class Gate {
   public:
    void open() {
      const std::lock_guard lock(mutex_);
      is_open_ = true;
      changed_.notify_all();
    }
    void pass() {
      std::unique_lock lock(mutex_);
      ++n_at_gate_;
      changed_.notify_all();
      changed_.wait(lock, [&] { return is_open_; });
    }
    void wait_for_one() {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return n_at_gate_ > 0; });
    }

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool is_open_ = false;
    int n_at_gate_ = 0;
  };
  enum class Fault : uint8_t { kNone, kExhausted, kNoMemory };
  struct Options {
    CountingConstraint::Options form = {};
    std::shared_ptr<Gate> gate = nullptr;   // null: a full effort does not wait
    uint32_t slow_mask_at = UINT32_MAX;     // number of tokens after which the mask is slow
    uint32_t slow_advance_at = UINT32_MAX;  // number of the token whose advance is slow
    uint32_t slow_every = 0;                // both are slow at each multiple; 0: never
    Fault fault = Fault::kNone;             // result of the slow part
  };

  explicit SlowConstraint(Options options)
      : options_(std::move(options)), inner_(std::make_unique<CountingConstraint>(options_.form)) {}
  SlowConstraint(const SlowConstraint& other)
      : options_(other.options_), inner_(other.inner_->fork()), n_(other.n_) {}

  std::unique_ptr<Constraint> fork() const override {
    return std::make_unique<SlowConstraint>(*this);
  }
  void fill_mask(TokenBitmask& mask) override { inner_->fill_mask(mask); }
  bool allows(TokenId token) override { return inner_->allows(token); }
  void advance(TokenId token) override {
    inner_->advance(token);
    ++n_;
  }
  void roll_back(uint32_t n) override {
    inner_->roll_back(n);
    n_ -= n;
  }
  End end() override { return inner_->end(); }
  void forced(uint32_t n_max, std::vector<TokenId>& tokens) override {
    inner_->forced(n_max, tokens);
  }
  Outcome try_advance(Effort effort, std::optional<TokenId> token, Next& next,
                      uint32_t n_max) override {
    const uint32_t n = n_ + (token ? 1 : 0);
    if (token && is_slow(n, options_.slow_advance_at)) {
      if (const auto outcome = take_long(effort); outcome != Outcome::kDone) return outcome;
    }
    return Constraint::try_advance(effort, token, next, n_max);
  }
  Outcome try_mask(Effort effort, TokenBitmask& mask) override {
    if (is_slow(n_, options_.slow_mask_at)) {
      if (const auto outcome = take_long(effort); outcome != Outcome::kDone) return outcome;
    }
    return Constraint::try_mask(effort, mask);
  }

 private:
  bool is_slow(uint32_t n, uint32_t at) const {
    return n == at || (options_.slow_every > 0 && n % options_.slow_every == 0);
  }
  Outcome take_long(Effort effort) {
    if (effort == Effort::kSmall) return Outcome::kUnfinished;
    if (options_.gate) options_.gate->pass();
    if (options_.fault == Fault::kNoMemory) throw std::bad_alloc();
    return options_.fault == Fault::kExhausted ? Outcome::kExhausted : Outcome::kDone;
  }

  Options options_;
  std::unique_ptr<Constraint> inner_;
  uint32_t n_ = 0;
};

}  // namespace kvik
