#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "constrain/machine.h"

namespace kvik::constrain {

// Implements `uniqueItems`: decides which values the items of an array must not have, or must have
// if items have to repeat. It runs when a value begins, so that no value is begun that could only
// become a forbidden one.
//
// If a node has more possible values than there are forbidden ones, nothing else is checked;
// otherwise all its values are enumerated. A text that Machine::within() dropped counts as every
// text that it may have been. If the result depends on such a text, the machine's
// depends_on_forgotten() becomes true.
//
// Use from one thread, during one query of its machine.
class Comparer {
 public:
  explicit Comparer(Machine& machine)
      : m_(machine), pool_(machine.pool_), parts_(*machine.parts_) {}

  // Adds the threads that begin a value of `node` in the compared frame on top of `stack`. `node`
  // is not a choice or a rule.
  void begin(uint32_t node, uint32_t stack, std::vector<Thread>& threads);
  // Returns the stack after `value` was read in the top frame of `stack`; std::nullopt if the value
  // is not allowed there.
  std::optional<uint32_t> with_value(uint32_t stack, uint32_t value);
  // Returns the property names that an object may have next; std::nullopt if comparison does not
  // restrict them.
  std::optional<Machine::KeyChoice> key_choice(uint32_t form, const Memory& memory);
  // Returns whether comparison allows the object or array of this frame to end.
  bool may_end(const Frame& frame);
  // Returns the rule (see ValueRule) for the value of the next property, after its name was read by
  // `way`; std::nullopt if no value is allowed.
  std::optional<uint32_t> property_rule(uint32_t form, const Memory& memory,
                                        const Machine::Way& way, uint32_t name);
  // A way to read the next item of an array, with the rule for its value.
  struct WayWithRule {
    Machine::Way way;
    uint32_t rule;
  };
  // Returns the ways to read the next item.
  std::vector<WayWithRule> ways_with_rules(uint32_t form, const Memory& memory);
  // Returns whether at least one array matches the form.
  bool is_possible(uint32_t form);

  Memory empty_memory(std::span<const uint32_t> list, uint32_t rule);
  // Returns the top frame's rule for the value that begins in it, restricted to values of `kind`.
  uint32_t rule_for(uint32_t stack, ValueKind kind);

 private:
  using Values = std::vector<uint32_t>;
  // The values of a rule that agree with the part of the container that has been read.
  struct Candidates {
    Values values;
    bool are_unsure = false;  // some of that part was dropped by within()
    bool has(uint32_t value) const;
  };
  // A container of which a part was read: its form, its list as in Frame, and the value of that
  // part.
  struct Begun {
    uint32_t form;
    uint32_t list;
    Values record;
  };

  uint32_t put_rule(ValueRule mode, Values values);
  ValueRule mode_of(uint32_t rule) const;
  std::span<const uint32_t> values_of(uint32_t rule) const;
  std::span<const uint32_t> parts_of(uint32_t value) const;
  ValueKind kind_of(uint32_t value) const;
  std::optional<uint32_t> member(uint32_t value, uint32_t name) const;
  Candidates candidates(ValueKind kind, const Memory& memory) const;
  // Notes that the result depends on a text that within() dropped.
  void ask() { m_.depends_on_forgotten_ = true; }
  // Returns whether `some` has a value that is not in `values`.
  bool exceeds(const SomeValues& some, const Values& values);

  Regular with_exponent(std::string_view text);
  // Returns the texts in `expr` of a number: its plain decimals or, if there are none, some with an
  // exponent. Returns kNothing if `expr` has neither.
  Regular spellings(Regular expr, uint32_t value);
  Regular text_rule(Regular expr, uint32_t rule);
  Regular number_rule(Regular expr, uint32_t rule);
  bool has_one(uint32_t node, ValueKind kind, uint32_t rule);

  // Defined in comparer_values.cpp: return up to n different values of a node, or of a container of
  // which a part has been read.
  SomeValues of_node(Node node, size_t n);
  SomeValues expand(const NodeParts& n, size_t most);
  SomeValues of_texts(Regular expr, size_t n);
  SomeValues of_strings(Regular expr, size_t n);
  SomeValues of_object(const Begun& begun, size_t n);
  SomeValues of_array(const Begun& begun, size_t n);
  // The position in an object's names after which further names are added, so that each set of
  // names is enumerated once.
  struct NamePlace {
    uint32_t named = 0;
    std::u32string other = {};
    bool is_after_other = false;
  };
  void add_objects(const Begun& begun, const NamePlace& from, size_t n, SomeValues& found);
  void add_arrays(const Begun& begun, size_t n, SomeValues& found);
  void add_longer(const Begun& begun, const WayWithRule& option, size_t n, SomeValues& found);
  void add_value(SomeValues& found, uint32_t value, size_t n);
  bool enumerate(Regular expr, size_t n, std::vector<std::u32string>& texts);
  // Counts a small amount of work. Returns false once the limits are exceeded.
  bool spend();

  // Defined in comparer_arrays.cpp.
  bool can_close(const Begun& begun);
  // Returns an upper estimate of the minimum number of items that are still needed.
  size_t n_needed(const Begun& begun) const;
  bool reaches_end(Begun begun);
  bool finds_places(const Begun& begun);
  // Returns all possible values of the later positions that have only few.
  Values scarce_values(const Begun& begun);
  Values excluded_items(const Begun& begun, uint32_t list, const Candidates& candidates);
  std::optional<Values> taken_items(const Begun& begun, uint32_t list);
  void add_way_without(const WayWithRule& option, const Values& not_these,
                       std::vector<WayWithRule>& ways);
  bool has_repeated(std::span<const uint32_t> record) const;
  bool may_repeat(uint32_t form, size_t from) const;
  Node both_of(const ArrayForm& array, size_t a, size_t b) const;
  Node item_at(const ArrayForm& array, size_t place) const;
  void add_ways_for(const Begun& begun, const Machine::Way& way, const Values& values,
                    std::vector<WayWithRule>& ways);
  void add_repeated_ways(const Begun& begun, const Machine::Way& way,
                         std::vector<WayWithRule>& ways);

  // Defined in comparer_takes.cpp: return whether a node can produce a value.
  bool takes(Node node, uint32_t value);
  bool takes_new(const NodeParts& n, uint32_t value);
  bool takes_text(Regular expr, uint32_t value);
  // Return whether the rest of `value`, an array or object, can be written: the items from `place`
  // on, or the properties that are not in `record`.
  bool completes_array(uint32_t form, uint32_t list, uint32_t value, size_t place);
  bool completes_object(uint32_t form, uint32_t list, uint32_t value, const Values& record);
  void add_written(uint32_t form, uint32_t list, uint32_t value, uint32_t name, Values& lists);
  // Returns the nodes that can be used to read the item at that position. All values of each node
  // are allowed there.
  std::vector<Node> item_nodes(uint32_t form, size_t place, Node item) const;

  Machine& m_;
  RegularPool& pool_;
  const GrammarParts& parts_;
  // Nodes whose values are being enumerated (recursively), each with the values found so far.
  std::vector<std::pair<uint32_t, Values>> open_;
  size_t lowest_assumed_ = ~size_t{0};
  size_t depth_ = 0;
};

}  // namespace kvik::constrain
