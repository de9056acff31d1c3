#include "text/grammar/matcher.h"

#include "base/check.h"
#include "text/grammar/workshop.h"

namespace kvik::grammar {

struct Constraint::Shared {
  Mutex mutex;
  std::shared_ptr<Workshop> workshop GUARDED_BY(mutex);  // shared with the matchers that use it
};

Constraint::Constraint(Grammar grammar, std::shared_ptr<const VocabularyTrie> vocabulary)
    : grammar_(std::move(grammar)),
      vocabulary_(std::move(vocabulary)),
      shared_(std::make_unique<Shared>()) {}

Constraint::~Constraint() = default;

std::shared_ptr<Constraint> Constraint::make(Grammar grammar,
                                             std::shared_ptr<const VocabularyTrie> vocabulary) {
  auto made =
      std::shared_ptr<Constraint>(new Constraint(std::move(grammar), std::move(vocabulary)));
  MutexLock lock(made->shared_->mutex);
  made->shared_->workshop =
      std::make_shared<Workshop>(made->grammar_.shared_parts(), made->vocabulary_);
  return made;
}

Matcher Constraint::start() {
  std::shared_ptr<Workshop> workshop;
  {
    MutexLock lock(shared_->mutex);
    workshop = shared_->workshop;
  }
  const auto state = static_cast<uint32_t>(workshop->machine.start());
  return Matcher(shared_from_this(), std::move(workshop), state);
}

std::shared_ptr<Workshop> Constraint::replace(const Workshop& full) {
  MutexLock lock(shared_->mutex);
  if (shared_->workshop.get() == &full) {
    shared_->workshop = std::make_shared<Workshop>(grammar_.shared_parts(), vocabulary_);
  }
  return shared_->workshop;
}

Matcher::Matcher(std::shared_ptr<Constraint> constraint, std::shared_ptr<Workshop> workshop,
                 uint32_t state)
    : constraint_(std::move(constraint)), workshop_(std::move(workshop)), states_({state}) {}

void Matcher::move_to(std::shared_ptr<Workshop> workshop) {
  // Two workshops are never held at once the other way round: the new one is younger.
  MutexLock from_lock(workshop_->mutex);
  MutexLock to_lock(workshop->mutex);
  workshop->machine.allow_work();
  for (uint32_t& state : states_) {
    state = static_cast<uint32_t>(workshop->machine.copy_state(workshop_->machine, State{state}));
  }
}

template <class Work>
auto Matcher::run(const Work& work) -> decltype(auto) {
  using Value = decltype(work(*workshop_, State{}));
  for (int attempt = 0;; ++attempt) {
    std::shared_ptr<Workshop> full;
    {
      MutexLock lock(workshop_->mutex);
      if (!workshop_->is_full()) {
        workshop_->machine.allow_work();
        Value value = work(*workshop_, State{states_.back()});
        if (!workshop_->machine.exhausted()) return Result<Value>(std::move(value));
      }
      full = workshop_;
    }
    if (attempt == 2) break;
    std::shared_ptr<Workshop> fresh = constraint_->replace(*full);
    move_to(fresh);
    workshop_ = std::move(fresh);
  }
  return Result<Value>(
      fail(ErrorCode::kExhausted, "the form takes more memory for this answer than there is"));
}

Result<void> Matcher::mask(std::span<uint64_t> allowed) {
  CHECK(allowed.size() == constraint_->vocabulary().n_mask_words());
  TRY(run([&](Workshop& workshop, State state) {
    workshop.make_mask(state, allowed);
    return true;
  }));
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
  if (states_.size() > kMaxRollBack * 2) {
    states_.erase(states_.begin(), states_.end() - static_cast<ptrdiff_t>(kMaxRollBack));
  }
  states_.push_back(static_cast<uint32_t>(to));
  return true;
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
  states_.push_back(static_cast<uint32_t>(to));
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

size_t Matcher::n_states() const {
  MutexLock lock(workshop_->mutex);
  return workshop_->machine.n_states();
}

}  // namespace kvik::grammar
