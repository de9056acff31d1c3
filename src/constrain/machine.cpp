#include "constrain/machine.h"

#include <bit>
#include <utility>

#include "constrain/compare/comparer.h"
#include "constrain/object_needs.h"
#include "constrain/thread_stepper.h"

namespace kvik::constrain {
namespace {

uint64_t pair_key(uint32_t a, uint32_t b) { return uint64_t{a} << 32 | b; }

constexpr uint32_t kNoNode = ~uint32_t{0};

}  // namespace

Machine::Machine(std::shared_ptr<const GrammarParts> parts)
    : parts_(std::move(parts)), pool_(parts_->limits.max_live_expressions, &parts_->pool) {
  states_.push_back({0, 0, StateParts::Known::kNo, true, {}, {}});
  next_.emplace_back().fill(kUnknownState);  // block 0: all successors are unknown
  frames_.put({});                           // stack 0: the bottom
  texts_.put({0, 0});                        // text 0: the text is not recorded
  texts_.put({0, 1});                        // text 1: the empty text
  allow_work();
  std::vector<Thread> first = {{.kind = Thread::kEnter, .expr = id_of(parts_->start)}};
  start_ = intern(first);
}

size_t Machine::bytes() const {
  return pool_.bytes() + states_.capacity() * sizeof(StateParts) +
         threads_.capacity() * sizeof(Thread) + next_.capacity() * sizeof(next_[0]) +
         state_index_.bytes() + frames_.bytes() + texts_.bytes() + lists_.bytes() + kept_bytes_ +
         within_.size() * 48;
}

std::span<const Thread> Machine::threads(State state) const {
  const StateParts& s = states_[static_cast<uint32_t>(state)];
  return std::span(threads_).subspan(s.first_thread, s.n_threads);
}

State Machine::intern(std::vector<Thread>& threads) {
  std::ranges::sort(threads);
  threads.erase(std::unique(threads.begin(), threads.end()), threads.end());
  if (threads.empty()) return State::kDead;
  if (threads.size() > parts_->limits.max_threads || exhausted()) {
    exhausted_ = true;
    return State::kDead;
  }
  const std::span words(reinterpret_cast<const uint32_t*>(threads.data()),
                        threads.size() * sizeof(Thread) / sizeof(uint32_t));
  const auto fresh = static_cast<uint32_t>(states_.size());
  const uint32_t number = state_index_.find_or_put(hash_words(words), fresh, [&](uint32_t i) {
    return std::ranges::equal(this->threads(State{i}), threads);
  });
  if (number == fresh) {
    if (bytes() > max_bytes_) exhausted_ = true;
    states_.push_back({static_cast<uint32_t>(threads_.size()),
                       static_cast<uint32_t>(threads.size()),
                       StateParts::Known::kUnknown,
                       false,
                       {},
                       {}});
    threads_.insert(threads_.end(), threads.begin(), threads.end());
  }
  return State{number};
}

uint32_t Machine::push(const Frame& frame) { return frames_.put(frame); }

State Machine::new_step(State state, uint8_t byte) {
  if (state == State::kDead) return state;
  const auto at = static_cast<uint32_t>(state);
  const std::span<const Thread> stored = threads(state);
  // a copy, because stepping may reallocate threads_
  const std::vector<Thread> copy(stored.begin(), stored.end());
  const uint64_t n_steps = 4 + copy.size() * 4;
  exhausted_ |= n_steps > work_left_;
  if (exhausted_) return State::kDead;
  work_left_ -= n_steps;
  ThreadStepper stepper(*this, byte);
  for (const Thread& thread : copy) stepper.step(thread);
  const State to = intern(stepper.threads());
  if (exhausted() || depends_on_forgotten_) return to;
  if (states_[at].blocks[byte >> 4] == 0) {
    states_[at].blocks[byte >> 4] = static_cast<uint32_t>(next_.size());
    next_.emplace_back().fill(kUnknownState);
  }
  next_[states_[at].blocks[byte >> 4]][byte & 15] = static_cast<uint32_t>(to);
  return to;
}

const Machine::Closure& Machine::closure_of_stack(uint32_t stack) {
  return closure_of(kNoNode, stack);
}

const Machine::Closure& Machine::closure_of(uint32_t node, uint32_t stack) {
  const uint64_t key = pair_key(node, stack);
  auto found = closures_.find(key);
  if (found == closures_.end()) {
    const bool had_dependency = std::exchange(depends_on_forgotten_, false);
    Closure made;
    close({{node, stack}}, made);
    made.has_forgotten = std::exchange(depends_on_forgotten_, had_dependency);
    kept_bytes_ += kEntryBytes + made.threads.capacity() * sizeof(Thread);
    found = closures_.emplace(key, std::move(made)).first;
  }
  depends_on_forgotten_ |= found->second.has_forgotten;
  return found->second;
}

void Machine::close(std::vector<std::array<uint32_t, 2>> left, Closure& closure) {
  std::unordered_map<uint64_t, bool> seen;
  // Repeats that were begun. Beginning one again before a character was read adds no new text.
  std::unordered_map<uint64_t, bool> begun;
  const auto leave = [&](uint32_t stack) { left.push_back({kNoNode, stack}); };
  const auto enter = [&](uint32_t node, uint32_t stack) { left.push_back({node, stack}); };
  const auto again = [&](uint32_t repeat, uint32_t count, uint32_t parent) {
    if (!begun.try_emplace(pair_key(repeat, parent), true).second) return;
    const NodeParts& n = parts_->nodes[repeat];
    const uint32_t next = n.c == RegularPool::kUnbounded ? std::min(count + 1, n.b) : count + 1;
    enter(n.a, push({Frame::kRepeat, repeat, next, parent}));
  };
  while (!left.empty()) {
    const auto [node, stack] = left.back();
    left.pop_back();
    if (!seen.try_emplace(pair_key(node, stack), true).second) continue;
    if (seen.size() > 100'000) {
      exhausted_ = true;
      return;
    }
    if (node == kNoNode) {
      const Frame top = frame(stack);
      switch (top.kind) {
        case Frame::kBottom:
          closure.done = true;
          break;
        case Frame::kNode:
          enter(top.a, top.parent);
          break;
        case Frame::kRepeat:
          if (top.b >= parts_->nodes[top.a].b) leave(top.parent);
          if (top.b < parts_->nodes[top.a].c) again(top.a, top.b, top.parent);
          break;
        case Frame::kObject:
        case Frame::kComparedObject:
          closure.threads.push_back(
              {.kind = Thread::kAfterValue, .stack = stack, .left = parts_->whitespace.max_run});
          break;
        default:
          closure.threads.push_back(
              {.kind = Thread::kAfterItem, .stack = stack, .left = parts_->whitespace.max_run});
      }
      continue;
    }
    const NodeParts& n = parts_->nodes[node];
    if (!n.productive) continue;
    if (is_compared(stack) && n.kind != NodeKind::kChoice && n.kind != NodeKind::kRule) {
      Comparer(*this).begin(node, stack, closure.threads);
      continue;
    }
    switch (n.kind) {
      case NodeKind::kNothing:
        break;
      case NodeKind::kEmptyText:
        leave(stack);
        break;
      case NodeKind::kText:
        if (n.nullable) leave(stack);
        closure.threads.push_back({.kind = Thread::kText, .stack = stack, .expr = n.a});
        break;
      case NodeKind::kString:
        closure.threads.push_back({.kind = Thread::kStringOpen, .stack = stack, .expr = n.a});
        break;
      case NodeKind::kSequence:
        enter(n.a, push({Frame::kNode, n.b, 0, stack}));
        break;
      case NodeKind::kChoice:
        for (const uint32_t id : parts_->list(n)) enter(id, stack);
        break;
      case NodeKind::kRepeat:
        if (n.nullable) leave(stack);
        again(node, 0, stack);
        break;
      case NodeKind::kRule:
        enter(id_of(*parts_->rules[n.a].body), stack);
        break;
      case NodeKind::kObject:
        closure.threads.push_back({.kind = Thread::kObjectOpen, .stack = stack, .expr = n.a});
        break;
      case NodeKind::kArray:
        closure.threads.push_back({.kind = Thread::kArrayOpen, .stack = stack, .expr = n.a});
        break;
    }
  }
}

bool Machine::is_complete(State state) {
  using Known = StateParts::Known;
  StateParts& s = states_[static_cast<uint32_t>(state)];
  if (s.complete != Known::kUnknown) return s.complete == Known::kYes;
  const std::span<const Thread> stored = threads(state);
  const std::vector<Thread> copy(stored.begin(), stored.end());
  bool complete = false;
  for (const Thread& thread : copy) {
    if (thread.kind == Thread::kDone) complete = true;
    if (thread.kind == Thread::kEnter) complete |= closure_of(thread.expr, thread.stack).done;
    if (thread.kind == Thread::kText && thread.partial == 0 && thread.text == 0 &&
        pool_.accepts_empty(Regular{thread.expr})) {
      complete |= closure_of_stack(thread.stack).done;
    }
  }
  if (!exhausted()) {
    states_[static_cast<uint32_t>(state)].complete = complete ? Known::kYes : Known::kNo;
  }
  return complete;
}

const Machine::ByteSet& Machine::first_bytes(State state) {
  const auto at = static_cast<uint32_t>(state);
  if (states_[at].has_first) return states_[at].first;
  const std::span<const Thread> stored = threads(state);
  const std::vector<Thread> copy(stored.begin(), stored.end());
  ThreadStepper stepper(*this, 0);
  ByteSet first = {};
  for (const Thread& thread : copy) stepper.add_first(thread, first);
  states_[at].first = first;
  states_[at].has_first = true;
  return states_[at].first;
}

std::optional<uint8_t> Machine::forced_byte(State state) {
  if (state == State::kDead || is_complete(state)) return {};
  const ByteSet first = first_bytes(state);
  std::vector<uint8_t> left;
  for (uint32_t byte = 0; byte < 256 && left.size() <= 2; ++byte) {
    if ((first[byte / 64] >> (byte % 64) & 1) == 0) continue;
    const auto next = static_cast<uint8_t>(byte);
    if (step(state, next) != State::kDead) left.push_back(next);
  }
  if (left.size() == 1) return left.front();
  if (left.size() != 2 || left.back() != '\\') {
    if (left.size() != 2 || left.front() != '\\') return {};
    std::ranges::reverse(left);
  }
  const std::span<const Thread> stored = threads(state);
  const std::vector<Thread> copy(stored.begin(), stored.end());
  ThreadStepper stepper(*this, 0);
  for (const Thread& thread : copy) {
    if (!stepper.needs_no_escape(thread)) return {};
  }
  return left.front();
}

State Machine::within(State state, uint32_t n_bytes) {
  const uint64_t key = pair_key(static_cast<uint32_t>(state), n_bytes);
  if (const auto found = within_.find(key); found != within_.end()) return found->second;
  const std::span<const Thread> stored = threads(state);
  std::vector<Thread> copy(stored.begin(), stored.end());
  for (Thread& thread : copy) {
    if (thread.kind != Thread::kText && thread.kind != Thread::kString &&
        thread.kind != Thread::kKey) {
      continue;
    }
    thread.expr = static_cast<uint32_t>(pool_.within(Regular{thread.expr}, n_bytes));
    if (thread.text != 0) thread.text = kForgotten;
  }
  const State to = intern(copy);
  if (!exhausted()) within_.emplace(key, to);
  return to;
}

bool Machine::runs_free(State state, const CodePointSet& set, uint32_t n) {
  return std::ranges::any_of(threads(state), [&](const Thread& thread) {
    return (thread.kind == Thread::kText || thread.kind == Thread::kString ||
            thread.kind == Thread::kKey) &&
           thread.partial == 0 && pool_.free_run(Regular{thread.expr}, set) >= n;
  });
}

std::u32string Machine::text_of(uint32_t text) const {
  std::u32string characters;
  for (; text > 1; text = texts_.items[text].parent) characters.push_back(texts_.items[text].last);
  std::ranges::reverse(characters);
  return characters;
}

const Machine::KeyChoice& Machine::key_choice_of(const Frame& frame) {
  if (frame.kind == Frame::kObject) return choice_in_order(frame.a, frame.b);
  const uint64_t key = pair_key(frame.a, frame.b);
  auto found = compared_choices_.find(key);
  if (found == compared_choices_.end()) {
    const bool had_dependency = std::exchange(depends_on_forgotten_, false);
    auto made = Comparer(*this).key_choice(frame.a, memory_of(frame));
    const bool has_asked = std::exchange(depends_on_forgotten_, had_dependency);
    if (made) made->has_forgotten = has_asked;
    kept_bytes_ += kEntryBytes + (made ? bytes_of(*made) : 0);
    found = compared_choices_.emplace(key, std::move(made)).first;
  }
  if (!found->second) return choice_in_order(frame.a, memory_of(frame).list);
  depends_on_forgotten_ |= found->second->has_forgotten;
  return *found->second;
}

const Machine::KeyChoice& Machine::key_choice(uint32_t form, uint32_t list) {
  const uint64_t key = pair_key(form, list);
  auto found = key_choices_.find(key);
  if (found == key_choices_.end()) {
    const auto stored = lists_.get(list);
    const std::vector<uint32_t> copy(stored.begin(), stored.end());
    found = key_choices_.emplace(key, make_key_choice(parts_->objects[form], copy)).first;
    kept_bytes_ += kEntryBytes + bytes_of(found->second);
  }
  depends_on_forgotten_ |= found->second.has_forgotten;
  return found->second;
}

Machine::KeyChoice Machine::make_key_choice(const ObjectParts& object,
                                            std::span<const uint32_t> list) {
  const size_t n_words = object.n_words();
  const uint32_t n_seen = list[0];
  const uint32_t witnesses = object.n_witnesses > 0 ? list[1 + n_words] : 0;
  const auto its_names = list.subspan(object.n_head());
  std::vector<uint32_t> seen(list.begin() + 1, list.begin() + 1 + static_cast<ptrdiff_t>(n_words));
  // The properties that are still missing: the required ones, and those that present ones need.
  std::vector<uint32_t> missing(n_words);
  for (size_t w = 0; w < n_words; ++w) missing[w] = object.required[w];
  for (size_t i = 0; i < object.names.size(); ++i) {
    if (object.needs[i].empty() || !has_bit(seen, i)) continue;
    for (size_t w = 0; w < n_words; ++w) missing[w] |= object.needs[i][w];
  }
  uint32_t n_missing = 0;
  for (size_t w = 0; w < n_words; ++w) {
    missing[w] &= ~seen[w];
    n_missing += static_cast<uint32_t>(std::popcount(missing[w]));
  }
  KeyChoice made{std::vector<uint32_t>(n_words),
                 n_missing == 0 && n_seen >= object.min && witnesses == object.all_witnesses(),
                 false, Regular::kNothing};
  const uint32_t n_left =
      object.max == RegularPool::kUnbounded ? RegularPool::kUnbounded : object.max - n_seen;
  // Returns whether another property that counts for the witnesses `is` leaves room for the rest.
  const auto fits = [&](uint32_t is) {
    const auto n = n_needed(*parts_, object, {seen, missing, witnesses | is});
    return n && (n_left == RegularPool::kUnbounded || *n < n_left);
  };
  const auto some_fits = [&](Node value, const std::vector<ObjectForm::Witness>& also) {
    if (parts_->node(value).productive && fits(0)) return true;
    return std::ranges::any_of(also, [&](const ObjectForm::Witness& one) {
      return parts_->node(one.value).productive && fits(one.is);
    });
  };
  for (size_t i = 0; i < object.names.size(); ++i) {
    if (has_bit(seen, i) || !parts_->node(object.values[i]).productive) continue;
    // Without needs and witnesses, a simple count suffices.
    if (object.needs[i].empty() && object.n_witnesses == 0) {
      const uint32_t n_needed = n_missing + (has_bit(missing, i) ? 0 : 1);
      if (n_left != RegularPool::kUnbounded && n_needed > n_left) continue;
      set_bit(made.allowed, i);
      continue;
    }
    const std::vector<uint32_t> missing_before = missing;
    bool possible = true;
    for (size_t j = 0; j < object.names.size() && !object.needs[i].empty(); ++j) {
      if (!has_bit(object.needs[i], j) || has_bit(seen, j) || j == i) continue;
      possible &= parts_->node(object.values[j]).productive;
      set_bit(missing, j);
    }
    missing[i / 32] &= ~(1u << i % 32);
    set_bit(seen, i);
    if (possible && some_fits(object.values[i], object.also[i])) set_bit(made.allowed, i);
    seen[i / 32] &= ~(1u << i % 32);
    missing = missing_before;
  }
  made.can_open = std::ranges::any_of(made.allowed, [](uint32_t word) { return word != 0; });
  std::vector<std::u32string> taken;
  for (const uint32_t name : its_names) {
    if (name == kForgotten) {
      made.has_forgotten = true;
    } else {
      taken.push_back(text_of(name));
    }
  }
  const Regular known = pool_.one_of(taken);
  for (size_t i = 0; i < object.others.size(); ++i) {
    if (!some_fits(object.others[i].value, object.others[i].also)) continue;
    const Regular left = pool_.difference(object.others[i].names, known);
    if (pool_.is_alive(left)) made.kinds.emplace_back(static_cast<uint32_t>(i), left);
  }
  made.others = join_kinds(made.kinds);
  made.can_open |= made.others != Regular::kNothing;
  return made;
}

}  // namespace kvik::constrain
