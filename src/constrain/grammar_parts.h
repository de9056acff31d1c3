#pragma once

#include <string>
#include <vector>

#include "constrain/grammar.h"

namespace kvik::constrain {

// The kinds of nodes. kText is a regular expression over the raw text, kString one over the
// unescaped contents of a JSON string.
enum class NodeKind : uint8_t {
  kNothing,
  kEmptyText,
  kText,      // a: regular
  kString,    // a: regular
  kSequence,  // a, b: nodes
  kChoice,    // a: offset in `lists`, b: number of nodes
  kRepeat,    // a: node, b: minimum, c: maximum
  kRule,      // a: index in `rules`
  kObject,    // a: index in `objects`
  kArray,
};

// A node of a grammar. The meaning of a, b and c depends on the kind.
struct NodeParts {
  NodeKind kind;
  uint32_t a = 0, b = 0, c = 0;
  bool nullable = false;
  bool productive = false;  // whether it matches any text
};

// A named rule; `body` is absent until Builder::define().
struct Rule {
  std::string name;
  std::optional<Node> body;
};

// An ObjectForm prepared for matching: names are ascending, and impossible unlisted names are
// removed.
struct ObjectParts {
  std::vector<std::u32string> names;
  std::vector<Node> values;        // kNothing: not allowed
  std::vector<uint32_t> required;  // bits of `names`
  // by property: bits of the properties it needs, transitively; or empty
  std::vector<std::vector<uint32_t>> needs;
  std::vector<std::vector<ObjectForm::Witness>> also;  // schemas by property
  std::vector<ObjectForm::Others> others;
  uint32_t min = 0, max = 0;
  uint32_t n_witnesses = 0;
  // rank of each property in the required order; empty if any order is allowed
  std::vector<uint32_t> ranks;
  bool productive = false;

  size_t n_words() const { return (names.size() + 31) / 32; }
  // Returns the size of the fixed part of an object's state while matching (a list of Machine): the
  // number of properties, the bits of those seen and, if there are witnesses, the bits of those
  // seen. The unlisted names follow.
  size_t n_head() const { return 1 + n_words() + (n_witnesses > 0 ? 1 : 0); }
  uint32_t all_witnesses() const { return (1u << n_witnesses) - 1; }
};

// The contents of a grammar, which a Builder fills and which are immutable after finish().
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
  std::vector<ObjectForm> object_forms;  // only before finish()
  std::vector<ObjectParts> objects;
  std::vector<ArrayForm> arrays;
  std::optional<Node> any_value;
  Node start = Node::kNothing;
  bool exhausted = false;
  bool is_out_of_work = false;  // set in addition to the pool's flag
};

inline bool has_bit(std::span<const uint32_t> words, size_t bit) {
  return (words[bit / 32] >> (bit % 32) & 1) != 0;
}
inline void set_bit(std::span<uint32_t> words, size_t bit) { words[bit / 32] |= 1u << (bit % 32); }

}  // namespace kvik::constrain
