#include <string>

#include "constrain/string_cursor.h"
#include "constrain/thread_stepper.h"

// Collects the bytes that may come next.
namespace kvik::constrain {
namespace {

void set_byte(Machine::ByteSet& set, uint32_t byte) {
  set[byte / 64] |= uint64_t{1} << (byte % 64);
}

void set_bytes(Machine::ByteSet& set, uint32_t first, uint32_t last) {
  for (uint32_t byte = first; byte <= last; ++byte) set_byte(set, byte);
}

void set_blanks(uint32_t left, Machine::ByteSet& set) {
  if (left == 0) return;
  set_byte(set, ' ');
  if (left == Thread::kOneSpace) return;
  for (const char c : {'\n', '\t', '\r'}) set_byte(set, static_cast<uint8_t>(c));
}

}  // namespace

void ThreadStepper::add_expression(Regular expr, uint32_t least, Machine::ByteSet& first) {
  const RegularPool::Next next = pool_.next(expr);
  for (uint32_t c = least; c < 0x80; ++c) {
    if ((next.ascii[c / 64] >> (c % 64) & 1) != 0) set_byte(first, c);
  }
  if (next.beyond) set_bytes(first, 0xC2, 0xF4);
}

void ThreadStepper::add_first_of_text(const Thread& thread, Machine::ByteSet& first) {
  set_blanks(thread.left, first);
  if (thread.partial != 0) return set_bytes(first, 0x80, 0xBF);
  add_expression(Regular{thread.expr}, 0, first);
}

void ThreadStepper::add_first_closed(const Thread& thread, Machine::ByteSet& first) {
  if (thread.kind == Thread::kText) return add_first_of_text(thread, first);
  add_first(thread, first);
}

void ThreadStepper::add_first(const Thread& thread, Machine::ByteSet& first) {
  set_blanks(thread.left, first);
  switch (thread.kind) {
    case Thread::kEnter: {
      const std::vector<Thread> ready = m_.closure_of(thread.expr, thread.stack).threads;
      for (const Thread& next : ready) add_first_closed(next, first);
      return;
    }
    case Thread::kText: {
      add_first_of_text(thread, first);
      if (thread.partial != 0 || !pool_.accepts_empty(Regular{thread.expr})) return;
      const auto stack = stack_after(thread);
      if (!stack) return;
      const std::vector<Thread> following = m_.closure_of_stack(*stack).threads;
      for (const Thread& next : following) add_first_closed(next, first);
      return;
    }
    case Thread::kStringOpen:
      return set_byte(first, '"');
    case Thread::kString:
    case Thread::kKey: {
      if (thread.partial != 0) {
        if (!CharacterCursor::is_escape(thread.partial)) return set_bytes(first, 0x80, 0xBF);
        return set_bytes(first, 0x20, 0x7E);
      }
      add_expression(Regular{thread.expr}, 0x20, first);
      set_byte(first, '\\');
      set_byte(first, '"');
      if (thread.kind == Thread::kString) return;
      const std::vector<std::u32string>& names = object_of(thread.stack).names;
      for (uint32_t i = thread.low; i < thread.high; ++i) {
        if (names[i].size() <= thread.depth) continue;
        const char32_t c = names[i][thread.depth];
        if (c < 0x80) {
          set_byte(first, c);
        } else {
          set_bytes(first, 0xC2, 0xF4);
        }
      }
      return;
    }
    case Thread::kObjectOpen:
      return set_byte(first, '{');
    case Thread::kFirstKey:
      set_byte(first, '}');
      return set_byte(first, '"');
    case Thread::kNextKey:
      return set_byte(first, '"');
    case Thread::kColon:
      return set_byte(first, ':');
    case Thread::kAfterValue:
      set_byte(first, ',');
      return set_byte(first, '}');
    case Thread::kArrayOpen:
      return set_byte(first, '[');
    case Thread::kAfterItem:
      set_byte(first, ',');
      return set_byte(first, ']');
    case Thread::kFirstItem: {
      set_byte(first, ']');
      for (const Thread& item : items_of(thread.stack, max_run_)) add_first(item, first);
      return;
    }
    default:
      return;
  }
}

bool ThreadStepper::needs_no_escape(const Thread& thread) {
  if ((thread.kind != Thread::kString && thread.kind != Thread::kKey) || thread.partial != 0) {
    return false;
  }
  const auto may_be = [&](char32_t first, char32_t last) {
    if (pool_.any_step(Regular{thread.expr}, first, last)) return true;
    Thread copy = thread;
    return thread.kind == Thread::kKey && narrow(copy, first, last);
  };
  return !may_be(0, 0x1F) && !may_be('"', '"') && !may_be('\\', '\\');
}

}  // namespace kvik::constrain
