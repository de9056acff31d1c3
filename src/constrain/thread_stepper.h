#pragma once

#include <optional>
#include <vector>

#include "constrain/machine.h"

namespace kvik::constrain {

// Advances the threads of a state by one byte; the resulting threads are added to threads().
class ThreadStepper {
 public:
  ThreadStepper(Machine& machine, uint8_t byte)
      : m_(machine),
        pool_(machine.pool_),
        byte_(byte),
        max_run_(m_.parts_->whitespace.max_run),
        after_mark_(m_.parts_->whitespace.spaces_after_marks ? Thread::kOneSpace : max_run_) {}

  void step(const Thread& thread);
  std::vector<Thread>& threads() { return out_; }

  // Adds the bytes that may follow a thread.
  void add_first(const Thread& thread, Machine::ByteSet& first);
  // True within a string if the next character needs no escape.
  bool needs_no_escape(const Thread& thread);

 private:
  const ObjectParts& object_of(uint32_t stack) const;
  const Machine::KeyChoice& keys_of(uint32_t stack);
  bool takes_blank(const Thread& thread);
  // Called when the value in the top frame is complete.
  void complete(uint32_t stack);
  // Called when the object or array on top of the stack is complete.
  void close_container(uint32_t stack);
  // The stack after the text or string of a thread if it may end here, otherwise nullopt.
  std::optional<uint32_t> stack_behind(const Thread& thread);
  void step_text(const Thread& thread);
  // For threads of a closure, which already includes the threads after an empty text: a repeat of
  // empty texts would otherwise not terminate.
  void step_closed(const Thread& thread);
  void add_first_closed(const Thread& thread, Machine::ByteSet& first);
  // Advances within the text itself, not beyond its end.
  void read_text(const Thread& thread);
  void add_first_of_text(const Thread& thread, Machine::ByteSet& first);
  void add_expression(Regular expr, uint32_t least, Machine::ByteSet& first);
  void step_string(const Thread& thread);
  void step_key(const Thread& thread);
  bool narrow(Thread& key, char32_t first, char32_t last);
  void end_key(const Thread& key);
  void open_key(uint32_t stack);
  // Pushes an empty container. n_head: the number of words at the beginning of its list.
  uint32_t begin_container(ValueKind kind, const Thread& thread, size_t n_head, bool is_compared);
  void open_object(const Thread& thread);
  void open_array(const Thread& thread);
  void step_array(const Thread& thread);
  bool array_can_close(const Frame& frame);
  // The threads that may read the next item; advanced by the byte if they follow the bracket.
  std::vector<Thread> items_of(uint32_t stack, uint32_t n_blanks);
  uint32_t longer_text(uint32_t text, char32_t c);
  bool may_continue(Regular expr, uint32_t partial);

  Machine& m_;
  RegularPool& pool_;
  uint8_t byte_;
  uint32_t max_run_;     // allowed white space in general
  uint32_t after_mark_;  // allowed white space after ':' and ','
  std::vector<Thread> out_;
};

}  // namespace kvik::constrain
