#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "constrain/machine.h"

namespace kvik::constrain {

// What values must not be (or must), so that the items of an array differ: asked where a value
// begins, so that nothing is begun that could only become what it must not be.
//
// A value that has as many possible values as it must not be, and one more, is never in need of a
// closer look; of those that have fewer, all are written down. What within() forgot counts as
// everything it might be: where that would decide, the machine is told that it was asked for.
//
// One thread, for one question of its machine at a time.
class Comparer {
 public:
  explicit Comparer(Machine& machine)
      : m_(machine), pool_(machine.pool_), parts_(*machine.parts_) {}

  // The threads that begin a value of `node` (no choice, no rule) in the compared frame on top.
  void begin(uint32_t node, uint32_t stack, std::vector<Thread>& threads);
  // The frame on top with the value that was read there; nothing where it must not be that.
  std::optional<uint32_t> with_value(uint32_t stack, uint32_t value);
  // What the names of an object may be; nothing where comparing leaves them as they are.
  std::optional<Machine::KeyChoice> key_choice(uint32_t form, const Memory& memory);
  // The object or the array may end here, as far as it is compared.
  bool may_end(const Frame& frame);
  // What its next property may be, once it has one of that name in that way: a ValueRule; nothing
  // where there is no value for it.
  std::optional<uint32_t> property_rule(uint32_t form, const Memory& memory,
                                        const Machine::Way& way, uint32_t name);
  // The ways to read the next item, each with its rule.
  struct RuledWay {
    Machine::Way way;
    uint32_t rule;
  };
  std::vector<RuledWay> ruled_ways(uint32_t form, const Memory& memory);
  // An array of such a form can be.
  bool is_possible(uint32_t form);

  Memory empty_memory(std::span<const uint32_t> list, uint32_t rule);
  // The frame's rule of the value that begins in it, less what is of other kinds.
  uint32_t rule_for(uint32_t stack, ValueKind kind);

 private:
  using Values = std::vector<uint32_t>;
  // Those values of a rule that agree with what is read of a container so far.
  struct Candidates {
    Values values;
    bool are_unsure = false;  // what they agree with is not all known
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
  // There is a value beyond those.
  bool exceeds(const SomeValues& some, const Values& values);

  Regular with_exponent(std::string_view text);
  // Texts of a number: plain decimals, else some with an exponent; nothing where `expr` has none.
  Regular spellings(Regular expr, uint32_t value);
  Regular text_rule(Regular expr, uint32_t rule);
  Regular number_rule(Regular expr, uint32_t rule);
  bool has_one(uint32_t node, ValueKind kind, uint32_t rule);

  // comparer_values.cpp: up to n different values, of a node or of what was begun.
  SomeValues of_node(Node node, size_t n);
  SomeValues expand(const NodeParts& n, size_t most);
  SomeValues of_texts(Regular expr, size_t n);
  SomeValues of_strings(Regular expr, size_t n);
  SomeValues of_object(const Begun& begun, size_t n);
  SomeValues of_array(const Begun& begun, size_t n);
  // Where in an object's names the ones to come begin: behind those before, so that each set of
  // names is met once.
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
  // Items that it still needs at least, or a few more.
  size_t n_needed(const Begun& begun) const;
  bool reaches_end(Begun begun);
  bool finds_places(const Begun& begun);
  // Values that later places have no other for.
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
  // The rest of an array's or object's value, behind that place or those names.
  bool completes_array(uint32_t form, uint32_t list, uint32_t value, size_t place);
  bool completes_object(uint32_t form, uint32_t list, uint32_t value, const Values& record);
  void add_written(uint32_t form, uint32_t list, uint32_t value, uint32_t name, Values& lists);
  // Nodes by which the item at that place may be read: all of them are of values that it may have.
  std::vector<Node> item_nodes(uint32_t form, size_t place, Node item) const;

  Machine& m_;
  RegularPool& pool_;
  const GrammarParts& parts_;
  // Nodes whose values are being looked for, and what is known of them, which is less than all.
  std::vector<std::pair<uint32_t, Values>> open_;
  size_t lowest_assumed_ = ~size_t{0};
  size_t depth_ = 0;
};

}  // namespace kvik::constrain
