#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "constrain/machine.h"

namespace kvik::constrain {

// Decides which values array items must not have (or must have) so that `uniqueItems` holds.
// Evaluated when a value begins, so that no value begins that could only become a forbidden one.
//
// If a node has more possible values than are forbidden, no closer look is needed; otherwise all
// its values are enumerated. Text that within() forgot counts as everything that it may be: if the
// result depends on it, the machine is notified.
//
// One thread, for one query of its machine at a time.
class Comparer {
 public:
  explicit Comparer(Machine& machine)
      : m_(machine), pool_(machine.pool_), parts_(*machine.parts_) {}

  // Adds the threads that begin a value of `node` (not a choice or rule) in the compared frame on
  // top.
  void begin(uint32_t node, uint32_t stack, std::vector<Thread>& threads);
  // Returns the top frame after a value was read there; std::nullopt if the value is not allowed.
  std::optional<uint32_t> with_value(uint32_t stack, uint32_t value);
  // Returns the allowed names of an object; std::nullopt if comparing does not restrict them.
  std::optional<Machine::KeyChoice> key_choice(uint32_t form, const Memory& memory);
  // Returns whether the object or array may end here, as far as comparing is concerned.
  bool may_end(const Frame& frame);
  // Returns the rule (ValueRule) of the next property after that name was read in that way;
  // std::nullopt if there is no value for it.
  std::optional<uint32_t> property_rule(uint32_t form, const Memory& memory,
                                        const Machine::Way& way, uint32_t name);
  // Returns the ways to read the next item, each with its rule.
  struct RuledWay {
    Machine::Way way;
    uint32_t rule;
  };
  std::vector<RuledWay> ruled_ways(uint32_t form, const Memory& memory);
  // Returns whether an array of such a form exists.
  bool is_possible(uint32_t form);

  Memory empty_memory(std::span<const uint32_t> list, uint32_t rule);
  // Returns the frame's rule for the value that begins in it, restricted to that kind.
  uint32_t rule_for(uint32_t stack, ValueKind kind);

 private:
  using Values = std::vector<uint32_t>;
  // Values of a rule that agree with the part of a container read so far.
  struct Candidates {
    Values values;
    bool are_unsure = false;  // the part read is not completely known
    bool has(uint32_t value) const;
  };
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
  void ask() { m_.asked_for_forgotten_ = true; }
  // Returns whether there are other values.
  bool exceeds(const SomeValues& some, const Values& values);

  Regular with_exponent(std::string_view text);
  // Texts of a number: plain decimals, else some with an exponent; kNothing if `expr` has none.
  Regular spellings(Regular expr, uint32_t value);
  Regular text_rule(Regular expr, uint32_t rule);
  Regular number_rule(Regular expr, uint32_t rule);
  bool has_one(uint32_t node, ValueKind kind, uint32_t rule);

  // comparer_values.cpp: up to n different values of a node, or of a container that has begun.
  SomeValues of_node(Node node, size_t n);
  SomeValues expand(const NodeParts& n, size_t most);
  SomeValues of_texts(Regular expr, size_t n);
  SomeValues of_strings(Regular expr, size_t n);
  SomeValues of_object(const Begun& begun, size_t n);
  SomeValues of_array(const Begun& begun, size_t n);
  // Position in an object's names after which the next names follow, so that each set of names
  // occurs once.
  struct NamePlace {
    uint32_t named = 0;
    std::u32string other = {};
    bool is_behind_other = false;
  };
  void add_objects(const Begun& begun, const NamePlace& from, size_t n, SomeValues& found);
  void add_arrays(const Begun& begun, size_t n, SomeValues& found);
  void add_longer(const Begun& begun, const RuledWay& option, size_t n, SomeValues& found);
  void add_value(SomeValues& found, uint32_t value, size_t n);
  bool enumerate(Regular expr, size_t n, std::vector<std::u32string>& texts);
  bool spend();

  // comparer_arrays.cpp
  bool can_close(const Begun& begun);
  // Returns an upper estimate of the minimum number of items still needed.
  size_t n_needed(const Begun& begun) const;
  bool reaches_end(Begun begun);
  bool finds_places(const Begun& begun);
  // Returns values that later positions need.
  Values scarce_values(const Begun& begun);
  Values dead_items(const Begun& begun, uint32_t list, const Candidates& its);
  std::optional<Values> taken_items(const Begun& begun, uint32_t list);
  void add_less(const RuledWay& option, const Values& not_these, std::vector<RuledWay>& ways);
  bool has_repeated(std::span<const uint32_t> record) const;
  bool may_repeat(uint32_t form, size_t from) const;
  Node both_of(const ArrayForm& array, size_t a, size_t b) const;
  Node item_at(const ArrayForm& array, size_t place) const;
  void add_some(const Begun& begun, const Machine::Way& way, const Values& values,
                std::vector<RuledWay>& ways);
  void add_repeated_ways(const Begun& begun, const Machine::Way& way, std::vector<RuledWay>& ways);

  // comparer_takes.cpp: whether a value can be written.
  bool takes(Node node, uint32_t value);
  bool takes_new(const NodeParts& n, uint32_t value);
  bool takes_text(Regular expr, uint32_t value);
  // Returns whether the rest of an array's or object's value, after that position or those names,
  // can be written.
  bool completes_array(uint32_t form, uint32_t list, uint32_t value, size_t place);
  bool completes_object(uint32_t form, uint32_t list, uint32_t value, const Values& record);
  void add_written(uint32_t form, uint32_t list, uint32_t value, uint32_t name, Values& lists);
  // Returns the nodes by which the item at that position may be read: all its values are allowed
  // there.
  std::vector<Node> item_nodes(uint32_t form, size_t place, Node item) const;

  Machine& m_;
  RegularPool& pool_;
  const GrammarParts& parts_;
  // Nodes whose values are being enumerated, and the values known so far.
  std::vector<std::pair<uint32_t, Values>> open_;
  size_t lowest_assumed_ = ~size_t{0};
  size_t depth_ = 0;
};

}  // namespace kvik::constrain
