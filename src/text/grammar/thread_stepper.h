#pragma once

#include <vector>

#include "text/grammar/machine.h"

namespace kvik::grammar {

// One byte for the threads of a state: what becomes of each is added to threads().
class ThreadStepper {
 public:
  ThreadStepper(Machine& machine, uint8_t byte)
      : m_(machine), pool_(machine.pool_), byte_(byte), max_run_(m_.parts_->whitespace.max_run) {}

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
  // The top of the stack is read to its end.
  void complete(uint32_t stack);
  void step_text(const Thread& thread);
  void step_string(const Thread& thread);
  void step_key(const Thread& thread);
  bool narrow(Thread& key, char32_t first, char32_t last);
  void end_key(const Thread& key);
  void open_key(uint32_t stack);
  void open_object(const Thread& thread);
  void open_array(const Thread& thread);
  void step_array(const Thread& thread);
  bool array_can_close(const Frame& frame);
  // The threads that may read the next item; stepped by the byte where they follow the bracket.
  std::vector<Thread> items_of(uint32_t stack);
  std::vector<Thread> unique_items_of(uint32_t stack);
  bool may_count(const ArrayForm& array, size_t place, uint32_t count, uint32_t n_needed);
  // What an item was, of those that must differ: texts of strings are compared without their
  // quotes.
  enum class UniqueKind : uint32_t { kString, kOther };
  uint32_t taken_stack(uint32_t stack, UniqueKind kind, uint32_t text);
  uint32_t longer_text(uint32_t text, char32_t c);
  bool may_continue(Regular expr, uint32_t partial);

  Machine& m_;
  RegularPool& pool_;
  uint8_t byte_;
  uint32_t max_run_;
  std::vector<Thread> out_;
};

}  // namespace kvik::grammar
