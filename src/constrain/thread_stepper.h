#pragma once

#include <optional>
#include <vector>

#include "constrain/machine.h"

namespace kvik::constrain {

// One byte for the threads of a state: what becomes of each is added to threads().
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
  // In a string whose next character has no need of an escape.
  bool needs_no_escape(const Thread& thread);

 private:
  const ObjectParts& object_of(uint32_t stack) const;
  const Machine::KeyChoice& keys_of(uint32_t stack);
  bool takes_blank(const Thread& thread);
  // A value is read, in the frame on top of the stack.
  void complete(uint32_t stack);
  // The object or the array on top of the stack is read to its end.
  void close_container(uint32_t stack);
  // The stack behind the text or string of a thread, once that ends; nothing where it may not.
  std::optional<uint32_t> stack_behind(const Thread& thread);
  void step_text(const Thread& thread);
  // Of a closure, which has what stands behind an empty text, too: a repeat of such texts would
  // lead there without end.
  void step_closed(const Thread& thread);
  void add_first_closed(const Thread& thread, Machine::ByteSet& first);
  // The text itself, and not what stands behind it.
  void read_text(const Thread& thread);
  void add_first_of_text(const Thread& thread, Machine::ByteSet& first);
  void add_expression(Regular expr, uint32_t least, Machine::ByteSet& first);
  void step_string(const Thread& thread);
  void step_key(const Thread& thread);
  bool narrow(Thread& key, char32_t first, char32_t last);
  void end_key(const Thread& key);
  void open_key(uint32_t stack);
  // The stack with a container on top of which nothing is read yet. n_head: the words that its list
  // begins with.
  uint32_t begin_container(ValueKind kind, const Thread& thread, size_t n_head, bool is_compared);
  void open_object(const Thread& thread);
  void open_array(const Thread& thread);
  void step_array(const Thread& thread);
  bool array_can_close(const Frame& frame);
  // The threads that may read the next item; stepped by the byte where they follow the bracket.
  std::vector<Thread> items_of(uint32_t stack, uint32_t n_blanks);
  uint32_t longer_text(uint32_t text, char32_t c);
  bool may_continue(Regular expr, uint32_t partial);

  Machine& m_;
  RegularPool& pool_;
  uint8_t byte_;
  uint32_t max_run_;     // white space wherever JSON allows it
  uint32_t after_mark_;  // after ':' and ','
  std::vector<Thread> out_;
};

}  // namespace kvik::constrain
