#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "engine/request/request.h"

namespace kvik {

// Timeout for events that should happen at once; a test that waits longer fails.
inline constexpr std::chrono::seconds kTestTimeout{60};

// Records all events of one request. Any thread may read them and wait for them.
class RecordingSink final : public EventSink {
 public:
  // Called with each token on the engine thread, without a lock held. It may block the engine.
  using OnToken = std::function<Verdict(const TokenEvent&)>;
  explicit RecordingSink(OnToken on_token = nullptr) : on_token_(std::move(on_token)) {}

  Verdict on_token(const TokenEvent& event) override {
    {
      const std::scoped_lock lock(mutex_);
      is_in_order_ = is_in_order_ && finishes_.empty();
      events_.push_back(event);
      changed_.notify_all();
    }
    return on_token_ ? on_token_(event) : Verdict::kContinue;
  }
  void on_finish(FinishReason reason, const Usage& usage) override {
    const std::scoped_lock lock(mutex_);
    finishes_.push_back(reason);
    usage_ = usage;
    changed_.notify_all();
  }
  void on_prompt(const PromptProgress& progress) override {
    const std::scoped_lock lock(mutex_);
    prompt_progress_.emplace_back(progress.n_done, progress.n_all);
  }
  void on_logits(uint32_t position, std::span<const float> logits) override {
    const std::scoped_lock lock(mutex_);
    is_in_order_ = is_in_order_ && finishes_.empty();
    logits_.emplace_back(position, std::vector<float>(logits.begin(), logits.end()));
  }

  // Waits for n tokens. Returns false on timeout.
  bool wait_for_tokens(size_t n) const {
    return wait([&] { return events_.size() >= n; });
  }
  bool wait_for_finish() const {
    return wait([&] { return !finishes_.empty(); });
  }

  std::vector<TokenId> tokens() const {
    const std::scoped_lock lock(mutex_);
    std::vector<TokenId> ids;
    for (const TokenEvent& event : events_) ids.push_back(event.id);
    return ids;
  }
  std::vector<TokenEvent> events() const { return locked(events_); }
  // Returns (tokens computed, tokens in total) after each step of the prompt.
  std::vector<std::pair<uint32_t, uint32_t>> prompt_progress() const {
    return locked(prompt_progress_);
  }
  std::vector<FinishReason> finishes() const { return locked(finishes_); }
  bool is_finished() const { return !finishes().empty(); }
  Usage usage() const { return locked(usage_); }
  // Returns (position, row) pairs in the order of their arrival.
  std::vector<std::pair<uint32_t, std::vector<float>>> logits() const { return locked(logits_); }
  // Returns whether no event followed the finish.
  bool is_in_order() const { return locked(is_in_order_); }

 private:
  template <class T>
  T locked(const T& value) const {
    const std::scoped_lock lock(mutex_);
    return value;
  }
  template <class Condition>
  bool wait(const Condition& condition) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kTestTimeout, condition);
  }

  const OnToken on_token_;
  mutable std::mutex mutex_;  // guards all members below
  mutable std::condition_variable changed_;
  std::vector<std::pair<uint32_t, uint32_t>> prompt_progress_;
  std::vector<TokenEvent> events_;
  std::vector<FinishReason> finishes_;
  std::vector<std::pair<uint32_t, std::vector<float>>> logits_;
  Usage usage_;
  bool is_in_order_ = true;
};

}  // namespace kvik
