#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "constrain/regular.h"

namespace kvik::constrain {

// A set of texts, which may be recursive, as the id of a node in a Builder.
enum class Node : uint32_t { kNothing = 0, kEmptyText = 1 };
inline uint32_t id_of(Node n) { return static_cast<uint32_t>(n); }

// Limits of compiling and matching. Exceeding them is an error, never a wrong result.
struct Limits {
  uint32_t max_expressions = 400'000;  // regular expressions in a compiled grammar
  uint32_t max_nodes = 400'000;        // nodes in a compiled grammar
  // regular expressions made while matching, before old ones are dropped
  uint32_t max_live_expressions = 600'000;
  uint32_t max_threads = 2048;  // simultaneous parses of one text
  // Work in steps of about ten nanoseconds: to compile a grammar, and for each token of an answer.
  uint64_t max_work = 4'000'000;
  uint64_t max_work_per_token = 10'000'000;
  // Memory of a matcher while it processes one token, in bytes.
  size_t max_matching_bytes = size_t{32} << 20;
  // If not null, compiling sets it to whether it failed for lack of steps, so that a larger
  // max_work might suffice. It is not used after compiling.
  bool* is_out_of_work = nullptr;
};

// Whitespace between the parts of JSON objects and arrays.
struct Whitespace {
  uint32_t max_run = 0;  // maximum length of whitespace wherever JSON allows it; 0: none
  // Allows one space after each ':' and ',' if `max_run` is 0.
  bool spaces_after_marks = false;

  static constexpr Whitespace spaced() { return {.max_run = 0, .spaces_after_marks = true}; }
};

// The syntax of the numbers in Builder::json_value() and in schemas.
enum class Numbers : uint8_t {
  kAny,      // as in JSON
  kBounded,  // up to 17 significant digits, finite as a double, no minus zero
};

// The JSON objects that are allowed. No property occurs twice in an object.
struct ObjectForm {
  // Another schema for a property's value. A value that matches it counts for the witnesses in
  // `is`, a set of bits. A witness is a property that the object must have under any suitable name.
  struct Witness {
    Node value;
    uint32_t is;
  };
  struct Property {
    std::u32string name;
    Node value;  // kNothing: not allowed
    bool required = false;
    std::vector<uint32_t> needs;  // properties required by this one
    std::vector<Witness> also = {};
  };
  struct Others {
    Regular names;  // their names, unescaped; names in `properties` are not included
    Node value;
    std::vector<Witness> also = {};
  };
  std::vector<Property> properties;
  std::vector<Others> others;  // their names are disjoint
  // Number of witnesses, all of which are required. One property may count for several of them. At
  // most 8.
  uint32_t n_witnesses = 0;
  uint32_t min = 0;
  uint32_t max = RegularPool::kUnbounded;
  // Properties must come in the order of `properties`, unlisted ones last. This is ignored if there
  // are witnesses, if the minimum depends on which properties were skipped, and for objects that
  // are compared with each other (uniqueItems): then any order is allowed.
  bool ordered = false;
};

// The JSON arrays that are allowed.
struct ArrayForm {
  // A schema for an item. An item that matches it counts for the `counts` given as a set of bits.
  struct Item {
    Node value;
    uint32_t counts = 0;
  };
  struct Count {
    uint32_t min = 0;
    uint32_t max = RegularPool::kUnbounded;
  };
  std::vector<std::vector<Item>> first;  // schemas by position
  std::vector<Item> rest;                // schemas of all later items; empty: the array ends there
  std::vector<Count> counts;
  bool unique = false;    // no two items are equal as JSON values
  bool repeated = false;  // at least two items are equal; only without `counts`
  // For `repeated`: the schemas of values that may occur at both of two positions, indexed by the
  // earlier position, then by the distance of the later one. The position `first.size()` stands for
  // all later ones.
  std::vector<std::vector<Node>> both;
  uint32_t min = 0;
  uint32_t max = RegularPool::kUnbounded;
};

struct GrammarParts;

// A grammar that is ready for matching. Immutable; thread-safe.
class Grammar {
 public:
  explicit Grammar(std::shared_ptr<const GrammarParts> parts) : parts_(std::move(parts)) {}
  const std::shared_ptr<const GrammarParts>& shared_parts() const { return parts_; }
  const Limits& limits() const;
  // Returns the memory of the grammar in bytes.
  size_t bytes() const;

 private:
  std::shared_ptr<const GrammarParts> parts_;  // shared by all matchers of this grammar
};

// Builds a grammar from nodes. Text nodes (regular expressions) are matched faster than other
// nodes, and adjacent ones are merged. Use from one thread.
class Builder {
 public:
  explicit Builder(const Limits& limits = {}, Whitespace whitespace = {},
                   Numbers numbers = Numbers::kAny);
  ~Builder();
  Builder(Builder&&) noexcept;

  RegularPool& regulars();

  // Returns a node for the texts themselves, in UTF-8.
  Node text(Regular text);
  // Returns a node for one text, which must be valid UTF-8.
  Node literal(std::string_view text);
  // Returns a node for JSON strings including their quotes. `meaning` is the set of the unescaped
  // values.
  Node json_string(Regular meaning);
  Node object(ObjectForm form);
  Node array(ArrayForm form);
  // Returns a node for all JSON values.
  Node json_value();

  Node sequence(std::span<const Node> parts);
  Node choice(std::span<const Node> parts);
  Node repeat(Node part, uint32_t min, uint32_t max);
  // Declares a rule, which define() must define later. The body may refer to the rule, but not at
  // its beginning.
  Node rule(std::string name);
  void define(Node rule, Node body);

  // Returns true once a limit is exceeded. Nodes made after that are unusable, and finish() fails.
  bool exhausted() const;

  // Returns the grammar that matches `start`. May be called once. Errors: kInvalidArgument for a
  // rule without definition, for left recursion, for a grammar that matches no text, and for an
  // exceeded limit.
  Result<Grammar> finish(Node start);

 private:
  std::unique_ptr<GrammarParts> parts_;  // null after finish()
  bool* is_out_of_work_;                 // Limits::is_out_of_work
};

}  // namespace kvik::constrain
