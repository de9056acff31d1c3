#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "constrain/compare/memory.h"
#include "constrain/grammar_parts.h"
#include "constrain/tables.h"

namespace kvik::constrain {

// One parse of the text so far: its innermost position, and the stack of enclosing frames.
struct Thread {
  enum Kind : uint32_t {
    kDone,        // nothing may follow
    kEnter,       // expects node `expr`; `left` whitespace characters may precede it
    kText,        // `expr` may follow; `partial`: of a character
    kStringOpen,  // expects the quote
    kString,      // in a string
    kObjectOpen,  // expects {
    kFirstKey,    // after {
    kNextKey,     // after a comma
    kKey,         // in a key: names low … high share `depth` characters with it
    kColon,       // expects : and then node `expr`
    kAfterValue,  // expects , or }
    kArrayOpen,   // expects [
    kFirstItem,   // after [
    kAfterItem,   // expects , or ]
  };
  uint32_t kind = kDone;
  uint32_t stack = 0;
  uint32_t expr = 0;
  uint32_t partial = 0;  // of a character or an escape: see StringCursor
  uint32_t text = 0;     // the string or number so far, if it is recorded
  // For a text, `low` is 1 if only its end decides whether the number is allowed.
  uint32_t low = 0, high = 0, depth = 0;
  uint32_t left = 0;  // whitespace characters that may follow here, or kOneSpace

  static constexpr uint32_t kOneSpace = ~uint32_t{0};

  friend auto operator<=>(const Thread&, const Thread&) = default;
};

// An enclosing frame of a thread.
struct Frame {
  enum Kind : uint32_t {
    kBottom,
    kNode,    // a: the node that follows
    kRepeat,  // a: the node, b: number of repetitions begun
    kObject,  // a: the form, b: its list: number of values, bits of properties seen, other names
    kArray,   // a: the form, b: its list: number of items, and of counted items per count
    // The same for values that are compared with others as a whole; b: its Memory.
    kComparedObject,
    kComparedArray,
  };
  uint32_t kind = kBottom;
  uint32_t a = 0, b = 0;
  uint32_t parent = 0;

  friend bool operator==(const Frame&, const Frame&) = default;
};

// A set of threads, as an id of a Machine. kDead is empty: the text does not match.
enum class State : uint32_t { kDead = 0 };

// Matches texts against a grammar byte by byte. All states reached are kept with their transitions,
// so that each is computed once. One thread.
class Machine {
 public:
  explicit Machine(std::shared_ptr<const GrammarParts> parts);

  State start() const { return start_; }
  // Also returns kDead once exhausted().
  State step(State state, uint8_t byte) {
    const uint32_t block = states_[static_cast<uint32_t>(state)].blocks[byte >> 4];
    const uint32_t known = next_[block][byte & 15];
    return known == kUnknownState ? new_step(state, byte) : State{known};
  }
  // Returns whether the text may end here.
  bool is_complete(State state);
  // Returns a superset of the bytes that may follow.
  using ByteSet = std::array<uint64_t, 4>;
  const ByteSet& first_bytes(State state);
  // Returns the byte that must follow, if there is exactly one and the text may not end. Escapes of
  // characters in strings are not considered.
  std::optional<uint8_t> forced_byte(State state);

  // Returns one of fewer states that allows the same next `n_bytes` bytes; `exact` becomes false if
  // that depends on earlier strings.
  State within(State state, uint32_t n_bytes);
  // Returns whether the text of a string that within() forgot was needed.
  bool asked_for_forgotten() const { return asked_for_forgotten_; }
  void forget_asking() { asked_for_forgotten_ = false; }
  // For a state in a string in which every next character is allowed: how many may follow, and the
  // state after the quote.
  struct AnyString {
    uint32_t min, max;
    State behind;
  };
  std::optional<AnyString> any_string(State state);
  // The unbounded state of such a kind to which most characters lead, and the bytes that may lead
  // elsewhere.
  struct Mostly {
    State to;
    ByteSet others;
  };
  std::optional<Mostly> mostly(State state);
  // Returns the bytes that may lead elsewhere than to the state returned by mostly(); all if that
  // is not known.
  ByteSet others_than(State state, State to);
  // Returns whether it is in a string, between two characters.
  bool is_between(State state) const;
  // Returns the state of some of its threads.
  State part_of(std::span<const Thread> threads);

  // Returns whether all characters of `set` may follow, at least n times.
  bool runs_free(State state, const CodePointSet& set, uint32_t n);

  // Called before each query: limits the work of its answer and the memory afterwards.
  void allow_work() { allow_work(parts_->limits.max_work_per_token); }
  void allow_work(uint64_t n_steps) {
    pool_.allow_work(n_steps);
    work_left_ = n_steps;
  }
  void allow(uint64_t n_steps, size_t n_bytes) {
    allow_work(n_steps);
    pool_.allow_bytes(n_bytes);
    max_bytes_ = n_bytes;
  }
  uint64_t work_left() const { return std::min(work_left_, pool_.work_left()); }
  // Returns true beyond the limits: existing states are right, new ones are not made.
  bool exhausted() const { return exhausted_ || pool_.exhausted(); }
  const Limits& limits() const { return parts_->limits; }
  size_t bytes() const;
  size_t n_states() const { return states_.size(); }

  // Copies a state from another machine of the same grammar.
  State copy_state(const Machine& from, State state);

  std::span<const Thread> threads(State state) const;

 private:
  friend class ThreadStepper;
  friend class Comparer;
  static constexpr uint32_t kUnknownState = ~uint32_t{0};
  static constexpr uint32_t kForgotten = ~uint32_t{0};  // a text that within() forgot

  struct StateParts {
    uint32_t first_thread;
    uint32_t n_threads;
    enum class Known : uint8_t { kUnknown, kNo, kYes };
    Known complete = Known::kUnknown;
    bool has_first = false;
    ByteSet first;
    std::array<uint32_t, 16> blocks;  // of next_, by the byte's upper half; 0: none yet
  };
  // The threads after nodes and frames are expanded to those that read a byte.
  struct Closure {
    std::vector<Thread> threads;
    bool done = false;
    bool has_forgotten = false;  // values that it would depend on
  };
  // Names that an object allows next.
  struct KeyChoice {
    std::vector<uint32_t> allowed;  // bits
    bool can_close;
    bool can_open;
    Regular others;              // other names, with the mark of their kind
    bool has_forgotten = false;  // names that it would depend on
    std::vector<std::pair<uint32_t, Regular>> kinds = {};  // the same, separately
  };
  // A property's name: one of `names`, or one of `others` with its text.
  struct PropertyName {
    bool is_named;
    uint32_t place;
    uint32_t text;
  };
  // One way to read a property or an item: its value, and the resulting list of its container.
  struct Way {
    Node value;
    uint32_t list;
  };

  static constexpr size_t kEntryBytes = 160;  // of a closure or choice, without its lists
  static size_t bytes_of(const KeyChoice& choice) {
    return choice.allowed.capacity() * sizeof(uint32_t) +
           choice.kinds.capacity() * sizeof(choice.kinds[0]);
  }
  State new_step(State state, uint8_t byte);  // one that is not in next_
  State intern(std::vector<Thread>& threads);
  const Thread* string_thread(State state) const;
  uint32_t push(const Frame& frame);
  const Frame& frame(uint32_t stack) const { return frames_.items[stack]; }
  const Closure& closure_of(uint32_t node, uint32_t stack);
  const Closure& closure_of_stack(uint32_t stack);
  void close(std::vector<std::array<uint32_t, 2>> left, Closure& closure);
  const KeyChoice& key_choice(uint32_t form, uint32_t list);
  KeyChoice make_key_choice(const ObjectParts& object, std::span<const uint32_t> list);
  // Returns the names that the object of this frame allows next, in the order that its form
  // requires.
  const KeyChoice& key_choice_of(const Frame& frame);
  // Returns the same for an object that is not compared.
  const KeyChoice& choice_in_order(uint32_t form, uint32_t list);
  const KeyChoice& ordered_key_choice(uint32_t form, uint32_t list);
  void keep_order(const ObjectParts& object, std::span<const uint32_t> list, KeyChoice& choice);
  // machine_ways.cpp
  std::vector<Way> property_ways(uint32_t form, uint32_t list, const PropertyName& name);
  std::vector<Way> item_ways(uint32_t form, uint32_t list);
  bool can_close_array(uint32_t form, uint32_t list) const;
  bool may_count(const ArrayForm& array, size_t place, uint32_t count, uint32_t n_needed) const;
  Regular join_kinds(std::span<const std::pair<uint32_t, Regular>> kinds);
  // machine_values.cpp: values that are compared, as ids of lists.
  bool is_compared(uint32_t stack) const { return frame(stack).kind >= Frame::kComparedObject; }
  Memory memory_of(const Frame& frame) const;
  uint32_t put_memory(const Memory& memory);
  uint32_t text_number(std::u32string_view text);
  uint32_t string_value(uint32_t text);
  uint32_t plain_value(uint32_t text);
  uint32_t container_value(ValueKind kind, std::span<const uint32_t> record);
  std::string json_of(uint32_t value) const;
  // machine_copy.cpp
  uint32_t copy_list(const Machine& from, const Frame& frame, uint32_t number);
  uint32_t copy_text(const Machine& from, uint32_t text);
  uint32_t copy_stack(const Machine& from, uint32_t stack);
  std::vector<uint32_t> copy_members(const Machine& from, std::span<const uint32_t> its);
  std::vector<uint32_t> copy_values(const Machine& from, std::span<const uint32_t> its);
  uint32_t copy_value(const Machine& from, uint32_t value);
  uint32_t copy_rule(const Machine& from, uint32_t rule);
  uint32_t copy_memory(const Machine& from, const Frame& frame);
  std::u32string text_of(uint32_t text) const;

  std::shared_ptr<const GrammarParts> parts_;
  RegularPool pool_;
  State start_ = State::kDead;
  bool exhausted_ = false;
  bool asked_for_forgotten_ = false;
  uint64_t work_left_ = 0;
  size_t max_bytes_ = SIZE_MAX;
  size_t kept_bytes_ = 0;  // of closures and key choices

  std::vector<StateParts> states_;
  std::vector<Thread> threads_;
  std::vector<std::array<uint32_t, 16>> next_;
  HashIndex state_index_;
  HashedItems<Frame> frames_;
  struct TextItem {
    uint32_t parent;
    char32_t last;
    friend bool operator==(const TextItem&, const TextItem&) = default;
  };
  HashedItems<TextItem> texts_;
  HashedLists lists_;
  std::unordered_map<uint64_t, Closure> closures_;
  std::unordered_map<uint64_t, KeyChoice> key_choices_, ordered_key_choices_;
  std::unordered_map<uint64_t, State> within_;
  // For compared objects; std::nullopt if comparing changes nothing.
  std::unordered_map<uint64_t, std::optional<KeyChoice>> compared_choices_;
  // Number of values of a node, if computed.
  struct KnownValues {
    size_t n_asked;
    SomeValues values;
  };
  std::unordered_map<uint32_t, KnownValues> known_values_;
  std::unordered_map<uint64_t, bool> known_takes_;  // by node and value
};

}  // namespace kvik::constrain
