#include "text/grammar/matcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "text/grammar/workshop.h"

namespace kvik::grammar {

Constraint::Constraint(Grammar grammar, std::shared_ptr<const VocabularyTrie> vocabulary,
                       Meter meter)
    : grammar_(std::move(grammar)), vocabulary_(std::move(vocabulary)), meter_(std::move(meter)) {}

std::shared_ptr<Constraint> Constraint::make(Grammar grammar,
                                             std::shared_ptr<const VocabularyTrie> vocabulary,
                                             Meter meter) {
  return std::shared_ptr<Constraint>(
      new Constraint(std::move(grammar), std::move(vocabulary), std::move(meter)));
}

Matcher Constraint::start() const { return Matcher(shared_from_this()); }

// The start has the same number in every machine, so it needs none yet.
Matcher::Matcher(std::shared_ptr<const Constraint> constraint)
    : constraint_(std::move(constraint)), states_({Workshop::kStart}) {}

Matcher::Matcher(Matcher&& other) noexcept
    : constraint_(std::move(other.constraint_)),
      workshop_(std::move(other.workshop_)),
      states_(std::move(other.states_)),
      effort_(other.effort_),
      work_left_(other.work_left_),
      is_spent_(other.is_spent_),
      has_failed_(other.has_failed_),
      counted_bytes_(std::exchange(other.counted_bytes_, 0)) {}

Matcher::~Matcher() {
  workshop_.reset();
  if (constraint_) count();
}

// Tells the meter what has changed.
void Matcher::count() {
  const size_t now = bytes();
  if (!constraint_->meter_ || now == counted_bytes_) return;
  *constraint_->meter_ += static_cast<int64_t>(now) - static_cast<int64_t>(counted_bytes_);
  counted_bytes_ = now;
}

Matcher::Matcher(const Matcher& other)
    : constraint_(other.constraint_),
      states_(other.states_),
      effort_(other.effort_),
      has_failed_(other.has_failed_) {
  if (!other.workshop_ || has_failed_) return;
  workshop_ =
      std::make_unique<Workshop>(constraint_->grammar_.shared_parts(), constraint_->vocabulary_);
  has_failed_ = !workshop_->copy_states(*other.workshop_, states_);
  count();
}

bool Matcher::renew_workshop() {
  auto fresh =
      std::make_unique<Workshop>(constraint_->grammar_.shared_parts(), constraint_->vocabulary_);
  if (states_.size() > kMaxRollBack + 1) {
    states_.erase(states_.begin(), states_.end() - static_cast<ptrdiff_t>(kMaxRollBack + 1));
  }
  if (workshop_ && !fresh->copy_states(*workshop_, states_)) return false;
  workshop_ = std::move(fresh);
  is_spent_ = false;
  return workshop_->bytes() <= kKeptBytes;
}

// Called after the position is known to be in states_.
bool Matcher::drop_excess() {
  if (effort_ == Effort::kSmall || bytes() <= kKeptBytes) return true;
  const bool fits = renew_workshop();
  count();
  return fits;
}

std::unexpected<Error> Matcher::fail_for_good() {
  has_failed_ = true;
  workshop_.reset();
  return exhausted();
}

std::unexpected<Error> Matcher::exhausted() const {
  const Limits& limits = constraint_->grammar_.limits();
  return fail(ErrorCode::kExhausted,
              fmt::format("the grammar takes more than {} steps of work or {} MiB for one token",
                          limits.max_work_per_token, limits.max_matching_bytes >> 20));
}

template <class Work>
auto Matcher::run(const Work& work) -> decltype(auto) {
  using Value = decltype(work(*workshop_, State{}));
  using Outcome = Result<Value>;
  if (has_failed_) return Outcome(exhausted());
  const bool is_small = effort_ == Effort::kSmall;
  const bool is_used_up = is_spent_ || bytes() > kKeptBytes;
  if (is_small && is_used_up) return Outcome(exhausted());
  const Limits& limits = constraint_->grammar_.limits();
  bool is_new = !workshop_ || is_used_up;
  if (is_new && !renew_workshop()) return Outcome(fail_for_good());
  for (;; is_new = true) {
    Machine& machine = workshop_->machine;
    machine.allow(
        work_left_.value_or(limits.max_work_per_token),
        is_small ? std::min(kSmallBytes, limits.max_matching_bytes) : limits.max_matching_bytes);
    Value value = work(*workshop_, State{states_.back()});
    is_spent_ = workshop_->is_exhausted();
    count();
    if (work_left_) work_left_ = machine.work_left();
    if (!is_spent_) return Outcome(std::move(value));
    if (is_small) return Outcome(exhausted());
    if (is_new || !renew_workshop()) return Outcome(fail_for_good());
    if (work_left_) work_left_ = limits.max_work_per_token;
  }
}

void Matcher::set_effort(Effort effort) {
  effort_ = effort;
  const uint64_t most = constraint_->grammar_.limits().max_work_per_token;
  work_left_ = effort == Effort::kSmall ? std::min(kSmallWork, most) : most;
}

Result<void> Matcher::mask(std::span<uint64_t> allowed) {
  CHECK(allowed.size() == constraint_->vocabulary().n_mask_words());
  TRY(run([&](Workshop& workshop, State state) {
    workshop.make_mask(state, allowed);
    return true;
  }));
  if (!drop_excess()) return fail_for_good();
  return {};
}

namespace {

State step_all(Machine& machine, State state, std::string_view bytes) {
  for (const char c : bytes) {
    if (state == State::kDead) return state;
    state = machine.step(state, static_cast<uint8_t>(c));
  }
  return state;
}

}  // namespace

Result<bool> Matcher::allows(TokenId id) {
  const std::string& bytes = constraint_->vocabulary().bytes(id);
  if (bytes.empty()) return false;
  return run([&](Workshop& workshop, State state) {
    return step_all(workshop.machine, state, bytes) != State::kDead;
  });
}

Result<bool> Matcher::accept(TokenId id) {
  const std::string& bytes = constraint_->vocabulary().bytes(id);
  if (bytes.empty()) return false;
  TRY_ASSIGN(const State to, run([&](Workshop& workshop, State state) {
               return step_all(workshop.machine, state, bytes);
             }));
  if (to == State::kDead) return false;
  push(static_cast<uint32_t>(to));
  if (!drop_excess()) return fail_for_good();
  return true;
}

void Matcher::push(uint32_t state) {
  if (states_.size() > kMaxRollBack * 2) {
    states_.erase(states_.begin(), states_.end() - static_cast<ptrdiff_t>(kMaxRollBack));
  }
  states_.push_back(state);
}

Result<size_t> Matcher::accept_bytes(std::string_view bytes) {
  size_t n_read = 0;
  TRY_ASSIGN(const State to, run([&](Workshop& workshop, State state) {
               for (n_read = 0; n_read < bytes.size(); ++n_read) {
                 const State next =
                     workshop.machine.step(state, static_cast<uint8_t>(bytes[n_read]));
                 if (next == State::kDead) break;
                 state = next;
               }
               return state;
             }));
  push(static_cast<uint32_t>(to));
  if (!drop_excess()) return fail_for_good();
  return n_read;
}

void Matcher::roll_back(size_t n_tokens) {
  CHECK(n_tokens < states_.size());
  states_.resize(states_.size() - n_tokens);
}

Result<bool> Matcher::is_complete() {
  return run([](Workshop& workshop, State state) { return workshop.machine.is_complete(state); });
}

Result<std::string> Matcher::forced_bytes(size_t max_bytes) {
  return run([&](Workshop& workshop, State state) {
    std::string bytes;
    while (bytes.size() < max_bytes) {
      const auto byte = workshop.machine.forced_byte(state);
      if (!byte) break;
      bytes.push_back(static_cast<char>(*byte));
      state = workshop.machine.step(state, *byte);
    }
    return bytes;
  });
}

Result<std::string> Matcher::next_bytes() {
  return run([](Workshop& workshop, State state) {
    std::string bytes;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      if (workshop.machine.step(state, static_cast<uint8_t>(byte)) != State::kDead) {
        bytes.push_back(static_cast<char>(byte));
      }
    }
    return bytes;
  });
}

size_t Matcher::n_states() const { return workshop_ ? workshop_->machine.n_states() : 0; }

size_t Matcher::bytes() const { return workshop_ ? workshop_->bytes() : 0; }

}  // namespace kvik::grammar
