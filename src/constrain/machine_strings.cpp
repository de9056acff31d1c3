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
  const std::span<const Thread> its = threads(state);
  if (its.size() != 1 || its[0].partial != 0) return nullptr;
  const bool in_string = its[0].kind == Thread::kString || its[0].kind == Thread::kKey;
  const bool is_kept = its[0].text != 0 && its[0].text != kForgotten;
  return in_string && !is_kept ? its.data() : nullptr;
}

bool Machine::is_between(State state) const { return string_thread(state) != nullptr; }

State Machine::part_of(std::span<const Thread> threads) {
  std::vector<Thread> copy(threads.begin(), threads.end());
  return intern(copy);
}

std::optional<Machine::AnyString> Machine::any_string(State state) {
  const Thread* const its = string_thread(state);
  if (!its || its->low != its->high) return {};
  const auto run = pool_.any_run(Regular{its->expr});
  if (!run) return {};
  Thread end = *its;
  end.expr = static_cast<uint32_t>(run->behind);
  return AnyString{run->min, run->max, step(run->min == 0 ? state : part_of({&end, 1}), '"')};
}

std::optional<Machine::Mostly> Machine::mostly(State state) {
  const Thread* const its = string_thread(state);
  if (!its) return {};
  Thread thread = *its;
  thread.expr = static_cast<uint32_t>(pool_.step(Regular{its->expr}, kUncommon));
  thread.low = thread.high = thread.depth = 0;
  const auto run = pool_.any_run(Regular{thread.expr});
  if (!run || run->min != 0 || run->max != RegularPool::kUnbounded) return {};
  const State to = part_of({&thread, 1});
  if (to == state) return {};
  return Mostly{to, exceptional_bytes(state, to)};
}

Machine::ByteSet Machine::exceptional_bytes(State state, State to) {
  const Thread* const found = string_thread(state);
  const Thread* const target = string_thread(to);
  if (!found || !target) return kAllBytes;
  const Thread its = *found;
  const Regular expr{target->expr};
  const bool is_alike =
      its.kind == target->kind && its.stack == target->stack && its.text == target->text;
  if (!is_alike) return kAllBytes;
  ByteSet others = {};
  set_bytes(others, '"', '"');
  set_bytes(others, '\\', '\\');
  const auto add = [&](char32_t first, char32_t last) {
    if (first <= last) set_bytes(others, first_byte(first), first_byte(last));
  };
  pool_.each_step(Regular{its.expr}, [&](char32_t first, char32_t last, Regular to_expr) {
    if (to_expr == expr) return;
    add(first, std::min(last, kBeforeSurrogates));
    add(std::max(first, kAfterSurrogates), last);
  });
  if (its.kind == Thread::kKey) {
    const std::vector<std::u32string>& names = parts_->objects[frame(its.stack).a].names;
    for (uint32_t i = its.low; i < its.high; ++i) {
      if (names[i].size() > its.depth) add(names[i][its.depth], names[i][its.depth]);
    }
  }
  return others;
}

}  // namespace kvik::constrain
