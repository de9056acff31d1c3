#pragma once

#include <string>
#include <vector>

#include "constrain/grammar.h"

namespace kvik::constrain {

enum class NodeKind : uint8_t {
  kNothing,
  kEmptyText,
  kText,      // a: regular
  kString,    // a: regular
  kSequence,  // a, b: nodes
  kChoice,    // a: position in lists, b: number
  kRepeat,    // a: node, b, c: bounds
  kRule,      // a: number of the rule
  kObject,    // a: number of the form
  kArray,
};

struct NodeParts {
  NodeKind kind;
  uint32_t a = 0, b = 0, c = 0;
  bool nullable = false;
  bool productive = false;  // matches some text
};

struct Rule {
  std::string name;
  std::optional<Node> body;
};

// An object's form for matching: names are ascending, impossible ones removed.
struct ObjectParts {
  std::vector<std::u32string> names;
  std::vector<Node> values;                  // kNothing: not allowed
  std::vector<uint32_t> required;            // bits
  std::vector<std::vector<uint32_t>> needs;  // bits by property, transitively; empty: none
  std::vector<std::vector<ObjectForm::Witness>> also;  // by property
  std::vector<ObjectForm::Others> others;
  uint32_t min = 0, max = 0;
  uint32_t n_witnesses = 0;
  // Position of each property in the required order; empty if any order is allowed.
  std::vector<uint32_t> ranks;
  bool productive = false;

  size_t n_words() const { return (names.size() + 31) / 32; }
  // Record of an object while matching: number of properties, bits of those seen, bits of witnesses
  // seen; then the other names.
  size_t n_head() const { return 1 + n_words() + (n_witnesses > 0 ? 1 : 0); }
  uint32_t all_witnesses() const { return (1u << n_witnesses) - 1; }
};

struct GrammarParts {
  GrammarParts(const Limits& its_limits, Whitespace its_whitespace, Numbers its_numbers)
      : limits(its_limits),
        whitespace(its_whitespace),
        numbers(its_numbers),
        pool(its_limits.max_expressions) {
    pool.allow_work(its_limits.max_work);
  }

  const NodeParts& node(Node n) const { return nodes[static_cast<uint32_t>(n)]; }
  std::span<const uint32_t> list(const NodeParts& n) const {
    return std::span(lists).subspan(n.a, n.b);
  }

  size_t bytes() const;

  Limits limits;
  Whitespace whitespace;
  Numbers numbers;
  RegularPool pool;
  std::vector<NodeParts> nodes;
  std::vector<uint32_t> lists;
  std::vector<Rule> rules;
  std::vector<ObjectForm> object_forms;  // empty after finish()
  std::vector<ObjectParts> objects;
  std::vector<ArrayForm> arrays;
  std::optional<Node> any_value;
  Node start = Node::kNothing;
  bool exhausted = false;
  bool is_out_of_work = false;  // in addition to the pool's own
};

inline bool has_bit(std::span<const uint32_t> words, size_t bit) {
  return (words[bit / 32] >> (bit % 32) & 1) != 0;
}
inline void set_bit(std::span<uint32_t> words, size_t bit) { words[bit / 32] |= 1u << (bit % 32); }

}  // namespace kvik::constrain
