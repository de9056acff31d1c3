#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "constrain/grammar.h"

namespace kvik::constrain {

// A part of a rule, as it is written in the grammar.
struct Production {
  enum class Kind : uint8_t {
    kNode,      // `node`: a node of the Builder, such as a text
    kRule,      // `rule`: number in the RuleSet
    kSequence,  // `parts`
    kChoice,    // `parts`
    kRepeat,    // `parts[0]`, `min` to `max` times
  };
  Kind kind = Kind::kNode;
  Node node = Node::kEmptyText;
  uint32_t rule = 0;
  uint32_t min = 0;
  uint32_t max = 0;
  std::vector<Production> parts = {};

  static Production of(Node node) { return {.kind = Kind::kNode, .node = node}; }
  static Production of_rule(uint32_t rule) { return {.kind = Kind::kRule, .rule = rule}; }
  // Return a sequence, a choice and a repetition. A sequence or choice of one part is that part.
  static Production sequence(std::vector<Production> parts);
  static Production choice(std::vector<Production> parts);
  static Production repeat(Production part, uint32_t min, uint32_t max);
};

// The rules of a textual grammar by name, in any order.
class RuleSet {
 public:
  // Returns the number of the rule and allocates it if the name is new. `line` is the line of this
  // mention, for errors.
  uint32_t rule(std::string_view name, size_t line);
  // Returns false if the rule is defined already.
  bool define(uint32_t rule, Production body);
  bool is_defined(std::string_view name) const;
  const std::string& name(uint32_t rule) const { return rules_[rule].name; }
  // Returns the body of the rule; null before define().
  const Production* body(uint32_t rule) const {
    return rules_[rule].is_defined ? &rules_[rule].body : nullptr;
  }

  // Builds the node of a rule and first those of the rules that it needs. A rule that is not
  // recursive becomes part of the rules that use it. Direct left recursion becomes repetition: `a
  // ::= a x | y` is built as `a ::= y x*`. Errors: kInvalidArgument for a rule that is not defined.
  Result<Node> build(Builder& builder, uint32_t start);

 private:
  struct Named {
    std::string name;
    size_t line;
    bool is_defined = false;
    Production body = {};
    Node node = Node::kNothing;
  };

  // Replaces the direct left recursion of a rule by repetition.
  void replace_left_recursion(uint32_t rule);
  Node make(Builder& builder, const Production& production) const;

  std::vector<Named> rules_;
  std::unordered_map<std::string, uint32_t> numbers_;
};

}  // namespace kvik::constrain
