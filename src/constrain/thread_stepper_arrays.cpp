#include <algorithm>

#include "constrain/compare/comparer.h"
#include "constrain/thread_stepper.h"

// Advances threads in arrays.
namespace kvik::constrain {

void ThreadStepper::open_array(const Thread& thread) {
  if (byte_ != '[') return;
  const ArrayForm& array = m_.parts_->arrays[thread.expr];
  const uint32_t stack =
      begin_container(ValueKind::kArray, thread, 1 + array.counts.size(),
                      array.unique || array.repeated || m_.is_compared(thread.stack));
  out_.push_back({.kind = Thread::kFirstItem, .stack = stack, .left = max_run_});
}

bool ThreadStepper::array_can_close(const Frame& frame) {
  if (frame.kind == Frame::kArray) return m_.can_close_array(frame.a, frame.b);
  return m_.can_close_array(frame.a, m_.memory_of(frame).list) && Comparer(m_).may_end(frame);
}

void ThreadStepper::step_array(const Thread& thread) {
  if (may_read_whitespace(thread)) return;
  const Frame top = m_.frame(thread.stack);
  if (byte_ == ']' && array_can_close(top)) close_container(thread.stack);
  const bool is_first = thread.kind == Thread::kFirstItem;
  if (!is_first && byte_ != ',') return;
  for (Thread item : items_of(thread.stack, is_first ? max_run_ : after_mark_)) {
    if (is_first) {
      step(item);
    } else {
      out_.push_back(item);
    }
  }
}

std::vector<Thread> ThreadStepper::items_of(uint32_t stack, uint32_t n_blanks) {
  const Frame top = m_.frame(stack);
  std::vector<Thread> made;
  const auto add = [&](Node value, uint32_t b) {
    made.push_back({.kind = Thread::kEnter,
                    .stack = m_.push({top.kind, top.a, b, top.parent}),
                    .expr = static_cast<uint32_t>(value),
                    .left = n_blanks});
  };
  if (top.kind == Frame::kArray) {
    for (const auto& [value, list] : m_.item_ways(top.a, top.b)) add(value, list);
    return made;
  }
  Memory memory = m_.memory_of(top);
  for (const auto& [way, rule] : Comparer(m_).ways_with_rules(top.a, memory)) {
    memory.list = way.list;
    memory.next_rule = rule;
    add(way.value, m_.put_memory(memory));
  }
  return made;
}

}  // namespace kvik::constrain
