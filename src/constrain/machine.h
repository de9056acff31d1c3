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

// One possible parse of the text read so far: the innermost position, and the stack of the
// enclosing frames.
struct Thread {
  enum Kind : uint32_t {
    kDone,        // the text is complete; nothing may follow
    kEnter,       // expects node `expr`; `left` whitespace characters may precede it
    kText,        // in a text; `expr` is what may follow
    kStringOpen,  // expects the quote
    kString,      // in a string
    kObjectOpen,  // expects {
    kFirstKey,    // after {
    kNextKey,     // after a comma
    kKey,         // in a key: the names [low, high) share their first `depth` characters with it
    kColon,       // expects : and then node `expr`
    kAfterValue,  // expects , or }
    kArrayOpen,   // expects [
    kFirstItem,   // after [
    kAfterItem,   // expects , or ]
  };
  uint32_t kind = kDone;
  uint32_t stack = 0;
  uint32_t expr = 0;
  uint32_t partial = 0;  // an incomplete character or escape: see CharacterCursor
  uint32_t text = 0;     // text of the string or number so far; 0 if it is not recorded
  // For kKey, see there. For kText, `low` is 1 if only the end of a number decides whether it is
  // allowed.
  uint32_t low = 0, high = 0, depth = 0;
  uint32_t left = 0;  // number of whitespace characters that may follow here, or kOneSpace

  static constexpr uint32_t kOneSpace = ~uint32_t{0};

  friend auto operator<=>(const Thread&, const Thread&) = default;
};

// A frame of a thread's stack: what encloses the current position.
struct Frame {
  enum Kind : uint32_t {
    kBottom,
    kNode,    // a: the node that comes next
    kRepeat,  // a: the node, b: number of repetitions that have begun
    kObject,  // a: the form, b: its list: ObjectParts::n_head() words, then the unlisted names
    kArray,   // a: the form, b: its list: the number of items, and of counted items for each count
    // The same for a container whose value is compared with others; b: its Memory.
    kComparedObject,
    kComparedArray,
  };
  uint32_t kind = kBottom;
  uint32_t a = 0, b = 0;
  uint32_t parent = 0;

  friend bool operator==(const Frame&, const Frame&) = default;
};

// A set of threads, as an id in a Machine. kDead is the empty set: the text does not match.
enum class State : uint32_t { kDead = 0 };

// Matches texts against a grammar byte by byte. The machine is a nondeterministic pushdown
// automaton that is made deterministic on demand: it stores all states that were reached and their
// transitions, so that each transition is computed once. Use from one thread.
class Machine {
 public:
  explicit Machine(std::shared_ptr<const GrammarParts> parts);

  State start() const { return start_; }
  // Returns the state after one more byte. Also returns kDead once the machine is exhausted().
  State step(State state, uint8_t byte) {
    const uint32_t block = states_[static_cast<uint32_t>(state)].blocks[byte >> 4];
    const uint32_t known = next_[block][byte & 15];
    return known == kUnknownState ? new_step(state, byte) : State{known};
  }
  // Returns whether the text may end here.
  bool is_complete(State state);
  // Returns a set of bytes that includes all bytes that may follow.
  using ByteSet = std::array<uint64_t, 4>;
  const ByteSet& first_bytes(State state);
  // Returns the byte that must follow if there is exactly one and the text may not end here.
  // Alternative spellings of a character in a string by an escape do not count.
  std::optional<uint8_t> forced_byte(State state);

  // Returns a state that allows the same next `n_bytes` bytes and is the same for many such states.
  // It drops the recorded text of strings and numbers, so its transitions may depend on text that
  // is not known; depends_on_forgotten() reports this.
  State within(State state, uint32_t n_bytes);
  // Returns whether a result depended on a text that within() dropped, since
  // clear_depends_on_forgotten().
  bool depends_on_forgotten() const { return depends_on_forgotten_; }
  void clear_depends_on_forgotten() { depends_on_forgotten_ = false; }
  // A state within a string in which any character is allowed: the minimum and maximum number of
  // further characters, and the state after the closing quote.
  struct AnyString {
    uint32_t min, max;
    State after_quote;
  };
  std::optional<AnyString> any_string(State state);
  // The state to which most characters lead, in which any number of any characters may follow, and
  // the bytes that may lead elsewhere.
  struct UsualState {
    State to;
    ByteSet others;
  };
  std::optional<UsualState> usual_state(State state);
  // Returns the bytes that may lead elsewhere than to `to`, a state returned by mostly(). Returns
  // all bytes if the two states are not of the same string.
  ByteSet exceptional_bytes(State state, State to);
  // Returns whether the state is between two characters of a string whose text is not recorded.
  bool is_between(State state) const;
  // Returns the state that consists of these threads.
  State part_of(std::span<const Thread> threads);

  // Returns whether any sequence of up to n characters of `set` may follow.
  bool runs_free(State state, const CodePointSet& set, uint32_t n);

  // Limits the work of the following queries. Called before each query.
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
  // Returns true once a limit was exceeded. Existing states remain correct, but no new ones are
  // made.
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
  static constexpr uint32_t kForgotten = ~uint32_t{0};  // a text that within() dropped

  struct StateParts {
    uint32_t first_thread;
    uint32_t n_threads;
    enum class Known : uint8_t { kUnknown, kNo, kYes };
    Known complete = Known::kUnknown;
    bool has_first = false;
    ByteSet first;
    std::array<uint32_t, 16>
        blocks;  // index in next_ by the upper half of the byte; 0: all unknown
  };
  // The threads that read the next byte, after all nodes and frames that read nothing were
  // expanded.
  struct Closure {
    std::vector<Thread> threads;
    bool done = false;
    bool has_forgotten = false;  // depends on values that within() dropped
  };
  // The property names that an object allows next.
  struct KeyChoice {
    std::vector<uint32_t> allowed;  // bits of ObjectParts::names
    bool can_close;
    bool can_open;
    Regular others;              // unlisted names, each with the mark of its kind
    bool has_forgotten = false;  // depends on names that within() dropped
    // the parts of `others`: index in ObjectParts::others, names
    std::vector<std::pair<uint32_t, Regular>> kinds = {};
  };
  // The name of a property: listed (`place` in ObjectParts::names) or unlisted (`place` in
  // ObjectParts::others). `text`: the name.
  struct PropertyName {
    bool is_named;
    uint32_t place;
    uint32_t text;
  };
  // One way to read a property or an item: the node of its value, and the list of the container
  // after it.
  struct Way {
    Node value;
    uint32_t list;
  };

  static constexpr size_t kEntryBytes = 160;  // estimate for a closure or choice without its lists
  static size_t bytes_of(const KeyChoice& choice) {
    return choice.allowed.capacity() * sizeof(uint32_t) +
           choice.kinds.capacity() * sizeof(choice.kinds[0]);
  }
  State new_step(State state, uint8_t byte);  // for a transition that is not in next_
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
  // requires. The frame may be a compared one.
  const KeyChoice& key_choice_of(const Frame& frame);
  // Returns the same for an object whose value is not compared.
  const KeyChoice& choice_in_order(uint32_t form, uint32_t list);
  const KeyChoice& ordered_key_choice(uint32_t form, uint32_t list);
  void keep_order(const ObjectParts& object, std::span<const uint32_t> list, KeyChoice& choice);
  // Defined in machine_ways.cpp.
  std::vector<Way> property_ways(uint32_t form, uint32_t list, const PropertyName& name);
  std::vector<Way> item_ways(uint32_t form, uint32_t list);
  bool can_close_array(uint32_t form, uint32_t list) const;
  bool may_count(const ArrayForm& array, size_t place, uint32_t count, uint32_t n_needed) const;
  Regular join_kinds(std::span<const std::pair<uint32_t, Regular>> kinds);
  // Defined in machine_values.cpp: values that are compared, as ids of lists.
  bool is_compared(uint32_t stack) const { return frame(stack).kind >= Frame::kComparedObject; }
  Memory memory_of(const Frame& frame) const;
  uint32_t put_memory(const Memory& memory);
  uint32_t text_number(std::u32string_view text);
  uint32_t string_value(uint32_t text);
  uint32_t plain_value(uint32_t text);
  uint32_t container_value(ValueKind kind, std::span<const uint32_t> record);
  std::string json_of(uint32_t value) const;
  // Defined in machine_copy.cpp: copy parts of another machine of the same grammar.
  uint32_t copy_list(const Machine& from, const Frame& frame, uint32_t number);
  uint32_t copy_text(const Machine& from, uint32_t text);
  uint32_t copy_stack(const Machine& from, uint32_t stack);
  std::vector<uint32_t> copy_members(const Machine& from, std::span<const uint32_t> words);
  std::vector<uint32_t> copy_values(const Machine& from, std::span<const uint32_t> words);
  uint32_t copy_value(const Machine& from, uint32_t value);
  uint32_t copy_rule(const Machine& from, uint32_t rule);
  uint32_t copy_memory(const Machine& from, const Frame& frame);
  std::u32string text_of(uint32_t text) const;

  std::shared_ptr<const GrammarParts> parts_;
  RegularPool pool_;
  State start_ = State::kDead;
  bool exhausted_ = false;
  bool depends_on_forgotten_ = false;
  uint64_t work_left_ = 0;
  size_t max_bytes_ = SIZE_MAX;
  size_t kept_bytes_ = 0;  // memory of closures and key choices

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
  // The names that compared objects allow; std::nullopt if comparison does not restrict them.
  std::unordered_map<uint64_t, std::optional<KeyChoice>> compared_choices_;
  // The values of a node, of which n_asked were requested.
  struct KnownValues {
    size_t n_asked;
    SomeValues values;
  };
  std::unordered_map<uint32_t, KnownValues> known_values_;
  std::unordered_map<uint64_t, bool> known_takes_;  // by node and value
};

}  // namespace kvik::constrain
