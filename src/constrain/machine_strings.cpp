#include <algorithm>

#include "constrain/machine.h"

namespace kvik::constrain {
namespace {

// A private-use character that stands for all characters that a form does not mention.
constexpr char32_t kUncommon = 0xE000;
constexpr char32_t kBeforeSurrogates = 0xD7FF, kAfterSurrogates = 0xE000;

uint32_t first_byte(char32_t c) {
  if (c < 0x80) return c;
  if (c < 0x800) return 0xC0 | c >> 6;
  if (c < 0x10000) return 0xE0 | c >> 12;
  return 0xF0 | c >> 18;
}

void set_bytes(Machine::ByteSet& set, uint32_t first, uint32_t last) {
  for (uint32_t byte = first; byte <= last; ++byte) set[byte / 64] |= uint64_t{1} << byte % 64;
}

constexpr Machine::ByteSet kAllBytes = {~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}};

}  // namespace

// Returns the thread of a state that has only one, if it is between two characters of a string
// whose text is not recorded; otherwise null.
const Thread* Machine::string_thread(State state) const {
  const std::span<const Thread> all = threads(state);
  if (all.size() != 1 || all[0].partial != 0) return nullptr;
  const bool in_string = all[0].kind == Thread::kString || all[0].kind == Thread::kKey;
  const bool is_kept = all[0].text != 0 && all[0].text != kForgotten;
  return in_string && !is_kept ? all.data() : nullptr;
}

bool Machine::is_between(State state) const { return string_thread(state) != nullptr; }

State Machine::part_of(std::span<const Thread> threads) {
  std::vector<Thread> copy(threads.begin(), threads.end());
  return intern(copy);
}

std::optional<Machine::AnyString> Machine::any_string(State state) {
  const Thread* const thread = string_thread(state);
  if (!thread || thread->low != thread->high) return {};
  const auto run = pool_.any_run(Regular{thread->expr});
  if (!run) return {};
  Thread end = *thread;
  end.expr = static_cast<uint32_t>(run->rest);
  return AnyString{run->min, run->max, step(run->min == 0 ? state : part_of({&end, 1}), '"')};
}

std::optional<Machine::UsualState> Machine::usual_state(State state) {
  const Thread* const string = string_thread(state);
  if (!string) return {};
  Thread thread = *string;
  thread.expr = static_cast<uint32_t>(pool_.step(Regular{string->expr}, kUncommon));
  thread.low = thread.high = thread.depth = 0;
  const auto run = pool_.any_run(Regular{thread.expr});
  if (!run || run->min != 0 || run->max != RegularPool::kUnbounded) return {};
  const State to = part_of({&thread, 1});
  if (to == state) return {};
  return UsualState{to, exceptional_bytes(state, to)};
}

Machine::ByteSet Machine::exceptional_bytes(State state, State to) {
  const Thread* const found = string_thread(state);
  const Thread* const target = string_thread(to);
  if (!found || !target) return kAllBytes;
  const Thread thread = *found;
  const Regular expr{target->expr};
  const bool is_alike =
      thread.kind == target->kind && thread.stack == target->stack && thread.text == target->text;
  if (!is_alike) return kAllBytes;
  ByteSet others = {};
  set_bytes(others, '"', '"');
  set_bytes(others, '\\', '\\');
  const auto add = [&](char32_t first, char32_t last) {
    if (first <= last) set_bytes(others, first_byte(first), first_byte(last));
  };
  pool_.each_step(Regular{thread.expr}, [&](char32_t first, char32_t last, Regular to_expr) {
    if (to_expr == expr) return;
    add(first, std::min(last, kBeforeSurrogates));
    add(std::max(first, kAfterSurrogates), last);
  });
  if (thread.kind == Thread::kKey) {
    const std::vector<std::u32string>& names = parts_->objects[frame(thread.stack).a].names;
    for (uint32_t i = thread.low; i < thread.high; ++i) {
      if (names[i].size() > thread.depth) add(names[i][thread.depth], names[i][thread.depth]);
    }
  }
  return others;
}

}  // namespace kvik::constrain
