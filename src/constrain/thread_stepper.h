#pragma once

#include <optional>
#include <vector>

#include "constrain/machine.h"

namespace kvik::constrain {

// Advances threads of a state by one byte and collects the resulting threads in threads().
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

  // Adds the bytes that the thread may read next to `first`.
  void add_first(const Thread& thread, Machine::ByteSet& first);
  // Returns true within a string if the next character can be written without an escape.
  bool needs_no_escape(const Thread& thread);

 private:
  const ObjectParts& object_of(uint32_t stack) const;
  const Machine::KeyChoice& keys_of(uint32_t stack);
  bool may_read_whitespace(const Thread& thread);
  // Adds the threads that follow a complete value in the top frame of `stack`.
  void complete(uint32_t stack);
  // Adds the threads that follow the object or array on top of `stack`, which is complete.
  void close_container(uint32_t stack);
  // Returns the stack after the text or string of a thread if it may end here; otherwise
  // std::nullopt.
  std::optional<uint32_t> stack_after(const Thread& thread);
  void step_text(const Thread& thread);
  // These functions advance threads of a closure. It already includes the threads after an empty
  // text, so they must not be added again: a repeat of empty texts would not terminate.
  void step_closed(const Thread& thread);
  void add_first_closed(const Thread& thread, Machine::ByteSet& first);
  // Advances within a text, but not beyond its end.
  void read_text(const Thread& thread);
  void add_first_of_text(const Thread& thread, Machine::ByteSet& first);
  void add_expression(Regular expr, uint32_t least, Machine::ByteSet& first);
  void step_string(const Thread& thread);
  void step_key(const Thread& thread);
  bool narrow(Thread& key, char32_t first, char32_t last);
  void end_key(const Thread& key);
  void open_key(uint32_t stack);
  // Pushes the frame of an empty container and returns the stack. `n_head`: number of words at the
  // beginning of its list.
  uint32_t begin_container(ValueKind kind, const Thread& thread, size_t n_head, bool is_compared);
  void open_object(const Thread& thread);
  void open_array(const Thread& thread);
  void step_array(const Thread& thread);
  bool array_can_close(const Frame& frame);
  // Returns the threads that may read the next item.
  std::vector<Thread> items_of(uint32_t stack, uint32_t n_blanks);
  uint32_t longer_text(uint32_t text, char32_t c);
  bool may_continue(Regular expr, uint32_t partial);

  Machine& m_;
  RegularPool& pool_;
  uint8_t byte_;
  uint32_t max_run_;     // maximum whitespace in general
  uint32_t after_mark_;  // maximum whitespace after ':' and ','
  std::vector<Thread> out_;
};

}  // namespace kvik::constrain
