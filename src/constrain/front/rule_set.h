#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "constrain/grammar.h"

namespace kvik::constrain {

// A part of a rule as written.
struct Production {
  enum class Kind : uint8_t {
    kNode,      // `node`: texts and existing nodes
    kRule,      // `rule`: of a RuleSet
    kSequence,  // `parts`
    kChoice,    // `parts`
    kRepeat,    // `parts`: one; `min` to `max` times
  };
  Kind kind = Kind::kNode;
  Node node = Node::kEmptyText;
  uint32_t rule = 0;
  uint32_t min = 0;
  uint32_t max = 0;
  std::vector<Production> parts = {};

  static Production of(Node node) { return {.kind = Kind::kNode, .node = node}; }
  static Production of_rule(uint32_t rule) { return {.kind = Kind::kRule, .rule = rule}; }
  // A sequence or choice of one part is that part.
  static Production sequence(std::vector<Production> parts);
  static Production choice(std::vector<Production> parts);
  static Production repeat(Production part, uint32_t min, uint32_t max);
};

// The rules of a textual grammar by name, in any order.
class RuleSet {
 public:
  // Returns the rule's number, which it gets when it is first mentioned. `line`: where it is
  // mentioned.
  uint32_t rule(std::string_view name, size_t line);
  // Returns false if it is defined already.
  bool define(uint32_t rule, Production body);
  bool is_defined(std::string_view name) const;
  const std::string& name(uint32_t rule) const { return rules_[rule].name; }
  // Returns its body; null before define().
  const Production* body(uint32_t rule) const {
    return rules_[rule].is_defined ? &rules_[rule].body : nullptr;
  }

  // Builds the node of a rule, after those that it needs. Rules without nesting become part of the
  // rule that uses them; left recursion becomes repetition (`a: a x | y` is `a: y x*`). Errors:
  // kInvalidArgument for a rule without definition.
  Result<Node> build(Builder& builder, uint32_t start);

 private:
  struct Named {
    std::string name;
    size_t line;
    bool is_defined = false;
    Production body = {};
    Node node = Node::kNothing;
  };

  void repeat_what_begins_with_itself(uint32_t rule);
  Node make(Builder& builder, const Production& production) const;

  std::vector<Named> rules_;
  std::unordered_map<std::string, uint32_t> numbers_;
};

}  // namespace kvik::constrain
