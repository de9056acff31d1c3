#include "constrain/grammar_matcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "constrain/mask_cache.h"

namespace kvik::constrain {

CompiledGrammar::CompiledGrammar(Grammar grammar, std::shared_ptr<const VocabularyTrie> vocabulary,
                                 Meter meter)
    : grammar_(std::move(grammar)), vocabulary_(std::move(vocabulary)), meter_(std::move(meter)) {}

std::shared_ptr<CompiledGrammar> CompiledGrammar::make(
    Grammar grammar, std::shared_ptr<const VocabularyTrie> vocabulary, Meter meter) {
  return std::shared_ptr<CompiledGrammar>(
      new CompiledGrammar(std::move(grammar), std::move(vocabulary), std::move(meter)));
}

GrammarMatcher CompiledGrammar::start() const { return GrammarMatcher(shared_from_this()); }

// The start state has the same number in every machine, so the machine is created later.
GrammarMatcher::GrammarMatcher(std::shared_ptr<const CompiledGrammar> grammar)
    : grammar_(std::move(grammar)), states_({MaskCache::kStart}) {}

GrammarMatcher::GrammarMatcher(GrammarMatcher&& other) noexcept
    : grammar_(std::move(other.grammar_)),
      mask_cache_(std::move(other.mask_cache_)),
      states_(std::move(other.states_)),
      effort_(other.effort_),
      work_left_(other.work_left_),
      is_spent_(other.is_spent_),
      has_failed_(other.has_failed_),
      counted_bytes_(std::exchange(other.counted_bytes_, 0)) {}

GrammarMatcher::~GrammarMatcher() {
  mask_cache_.reset();
  if (grammar_) count();
}

// Adds the change of this matcher's memory to the meter.
void GrammarMatcher::count() {
  const size_t now = bytes();
  if (!grammar_->meter_ || now == counted_bytes_) return;
  *grammar_->meter_ += static_cast<int64_t>(now) - static_cast<int64_t>(counted_bytes_);
  counted_bytes_ = now;
}

GrammarMatcher::GrammarMatcher(const GrammarMatcher& other)
    : grammar_(other.grammar_),
      states_(other.states_),
      effort_(other.effort_),
      has_failed_(other.has_failed_) {
  if (!other.mask_cache_ || has_failed_) return;
  mask_cache_ =
      std::make_unique<MaskCache>(grammar_->grammar_.shared_parts(), grammar_->vocabulary_);
  has_failed_ = !mask_cache_->copy_states(*other.mask_cache_, states_);
  count();
}

bool GrammarMatcher::renew_mask_cache() {
  auto fresh =
      std::make_unique<MaskCache>(grammar_->grammar_.shared_parts(), grammar_->vocabulary_);
  if (states_.size() > kMaxRollBack + 1) {
    states_.erase(states_.begin(), states_.end() - static_cast<ptrdiff_t>(kMaxRollBack + 1));
  }
  if (mask_cache_ && !fresh->copy_states(*mask_cache_, states_)) return false;
  mask_cache_ = std::move(fresh);
  is_spent_ = false;
  return mask_cache_->bytes() <= kKeptBytes;
}

// Renews the cache if it is larger than kKeptBytes. states_ must contain the new position already.
// Returns false if the limits are exceeded.
bool GrammarMatcher::shrink_cache() {
  if (effort_ == Effort::kSmall || bytes() <= kKeptBytes) return true;
  const bool fits = renew_mask_cache();
  count();
  return fits;
}

std::unexpected<Error> GrammarMatcher::fail_permanently() {
  has_failed_ = true;
  mask_cache_.reset();
  return exhausted();
}

std::unexpected<Error> GrammarMatcher::exhausted() const {
  const Limits& limits = grammar_->grammar_.limits();
  return fail(ErrorCode::kExhausted,
              fmt::format("the grammar takes more than {} steps of work or {} MiB for one token",
                          limits.max_work_per_token, limits.max_matching_bytes >> 20));
}

template <class Work>
auto GrammarMatcher::run(const Work& work) -> decltype(auto) {
  using Value = decltype(work(*mask_cache_, State{}));
  using Outcome = Result<Value>;
  if (has_failed_) return Outcome(exhausted());
  const bool is_small = effort_ == Effort::kSmall;
  const bool is_used_up = is_spent_ || bytes() > kKeptBytes;
  if (is_small && is_used_up) return Outcome(exhausted());
  const Limits& limits = grammar_->grammar_.limits();
  bool is_new = !mask_cache_ || is_used_up;
  if (is_new && !renew_mask_cache()) return Outcome(fail_permanently());
  for (;; is_new = true) {
    Machine& machine = mask_cache_->machine;
    machine.allow(
        work_left_.value_or(limits.max_work_per_token),
        is_small ? std::min(kSmallBytes, limits.max_matching_bytes) : limits.max_matching_bytes);
    Value value = work(*mask_cache_, State{states_.back()});
    is_spent_ = mask_cache_->is_exhausted();
    count();
    if (work_left_) work_left_ = machine.work_left();
    if (!is_spent_) return Outcome(std::move(value));
    if (is_small) return Outcome(exhausted());
    if (is_new || !renew_mask_cache()) return Outcome(fail_permanently());
    if (work_left_) work_left_ = limits.max_work_per_token;
  }
}

void GrammarMatcher::set_effort(Effort effort) {
  effort_ = effort;
  const uint64_t most = grammar_->grammar_.limits().max_work_per_token;
  work_left_ = effort == Effort::kSmall ? std::min(kSmallWork, most) : most;
}

Result<void> GrammarMatcher::mask(TokenBitmask& allowed) {
  CHECK(allowed.n_tokens() >= grammar_->vocabulary().n_vocab());
  TRY(run([&](MaskCache& cache, State state) {
    cache.make_mask(state, allowed);
    return true;
  }));
  if (!shrink_cache()) return fail_permanently();
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

Result<bool> GrammarMatcher::allows(TokenId id) {
  const std::string& bytes = grammar_->vocabulary().bytes(id);
  if (bytes.empty()) return false;
  return run([&](MaskCache& cache, State state) {
    return step_all(cache.machine, state, bytes) != State::kDead;
  });
}

Result<bool> GrammarMatcher::accept(TokenId id) {
  const std::string& bytes = grammar_->vocabulary().bytes(id);
  if (bytes.empty()) return false;
  TRY_ASSIGN(const State to, run([&](MaskCache& cache, State state) {
               return step_all(cache.machine, state, bytes);
             }));
  if (to == State::kDead) return false;
  push(static_cast<uint32_t>(to));
  if (!shrink_cache()) return fail_permanently();
  return true;
}

void GrammarMatcher::push(uint32_t state) {
  if (states_.size() > kMaxRollBack * 2) {
    states_.erase(states_.begin(), states_.end() - static_cast<ptrdiff_t>(kMaxRollBack));
  }
  states_.push_back(state);
}

Result<size_t> GrammarMatcher::accept_bytes(std::string_view bytes) {
  size_t n_read = 0;
  TRY_ASSIGN(const State to, run([&](MaskCache& cache, State state) {
               for (n_read = 0; n_read < bytes.size(); ++n_read) {
                 const State next = cache.machine.step(state, static_cast<uint8_t>(bytes[n_read]));
                 if (next == State::kDead) break;
                 state = next;
               }
               return state;
             }));
  push(static_cast<uint32_t>(to));
  if (!shrink_cache()) return fail_permanently();
  return n_read;
}

void GrammarMatcher::roll_back(size_t n_tokens) {
  CHECK(n_tokens < states_.size());
  states_.resize(states_.size() - n_tokens);
}

Result<bool> GrammarMatcher::is_complete() {
  return run([](MaskCache& cache, State state) { return cache.machine.is_complete(state); });
}

Result<std::string> GrammarMatcher::forced_bytes(size_t max_bytes) {
  return run([&](MaskCache& cache, State state) {
    std::string bytes;
    while (bytes.size() < max_bytes) {
      const auto byte = cache.machine.forced_byte(state);
      if (!byte) break;
      bytes.push_back(static_cast<char>(*byte));
      state = cache.machine.step(state, *byte);
    }
    return bytes;
  });
}

Result<std::string> GrammarMatcher::next_bytes() {
  return run([](MaskCache& cache, State state) {
    std::string bytes;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      if (cache.machine.step(state, static_cast<uint8_t>(byte)) != State::kDead) {
        bytes.push_back(static_cast<char>(byte));
      }
    }
    return bytes;
  });
}

size_t GrammarMatcher::n_states() const {
  return mask_cache_ ? mask_cache_->machine.n_states() : 0;
}

size_t GrammarMatcher::bytes() const { return mask_cache_ ? mask_cache_->bytes() : 0; }

}  // namespace kvik::constrain
