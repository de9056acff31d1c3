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

// A set of possibly nested texts, as an id of a Builder.
enum class Node : uint32_t { kNothing = 0, kEmptyText = 1 };
inline uint32_t id_of(Node n) { return static_cast<uint32_t>(n); }

// Limits of compiling and matching. Exceeding them is an error, never a wrong result.
struct Limits {
  uint32_t max_expressions = 400'000;       // of a compiled grammar
  uint32_t max_nodes = 400'000;             //
  uint32_t max_live_expressions = 600'000;  // made while matching, before old ones are dropped
  uint32_t max_threads = 2048;              // parses of one text at a time
  // Steps of about ten nanoseconds: for a client's grammar, and for each token of an answer.
  uint64_t max_work = 4'000'000;
  uint64_t max_work_per_token = 10'000'000;
  // Memory of a matcher while it processes one token.
  size_t max_matching_bytes = size_t{32} << 20;
  // Set by compiling to whether it failed for lack of steps, so that a larger max_work might
  // suffice; null: not needed. Not kept by a compiled grammar.
  bool* is_out_of_work = nullptr;
};

// Whitespace between the parts of JSON objects and arrays.
struct Whitespace {
  uint32_t max_run = 0;  // maximum length wherever JSON allows whitespace; 0: none
  // Without `max_run`: one space may follow each ':' and ','.
  bool spaces_after_marks = false;

  static constexpr Whitespace spaced() { return {.max_run = 0, .spaces_after_marks = true}; }
};

// Syntax of JSON numbers without bounds of their own.
enum class Numbers : uint8_t {
  kAny,      // as in JSON
  kBounded,  // up to 17 significant digits, finite as a double, no minus zero
};

// A JSON object; no property occurs twice.
struct ObjectForm {
  // Another way to read a property's value, and the witnesses that it then counts for, as bits.
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
    Regular names;  // unescaped strings; without those of `properties`
    Node value;
    std::vector<Witness> also = {};
  };
  std::vector<Property> properties;
  std::vector<Others> others;  // with disjoint names
  // Number of required witnesses; one property may count for several. At most 8.
  uint32_t n_witnesses = 0;
  uint32_t min = 0;
  uint32_t max = RegularPool::kUnbounded;
  // Properties are in the order of `properties`, others after them. Ignored if witnesses are
  // counted, if the minimum depends on which properties were skipped, and among values that are
  // compared with each other (uniqueItems): any order is allowed there.
  bool ordered = false;
};

// A JSON array.
struct ArrayForm {
  // One way to read an item, and the `counts` that it adds to, as bits.
  struct Item {
    Node value;
    uint32_t counts = 0;
  };
  struct Count {
    uint32_t min = 0;
    uint32_t max = RegularPool::kUnbounded;
  };
  std::vector<std::vector<Item>> first;  // by position
  std::vector<Item> rest;                // after those; none: the array ends there
  std::vector<Count> counts;
  bool unique = false;    // no two items are equal as JSON values
  bool repeated = false;  // some two are equal; without `counts`
  // For `repeated`: the values that may occur at both of two positions, the earlier one first; the
  // position after `first` represents all others.
  std::vector<std::vector<Node>> both;
  uint32_t min = 0;
  uint32_t max = RegularPool::kUnbounded;
};

struct GrammarParts;

// A compiled grammar. Immutable: any thread.
class Grammar {
 public:
  explicit Grammar(std::shared_ptr<const GrammarParts> parts) : parts_(std::move(parts)) {}
  const std::shared_ptr<const GrammarParts>& shared_parts() const { return parts_; }
  const Limits& limits() const;
  // Memory of the compiled grammar in bytes.
  size_t bytes() const;

 private:
  std::shared_ptr<const GrammarParts> parts_;  // shared with its matchers
};

// Builds a grammar. Regular parts are cheaper than others, and adjacent ones are merged. One
// thread.
class Builder {
 public:
  explicit Builder(const Limits& limits = {}, Whitespace whitespace = {},
                   Numbers numbers = Numbers::kAny);
  ~Builder();
  Builder(Builder&&) noexcept;

  RegularPool& regulars();

  // The text itself, in UTF-8.
  Node text(Regular text);
  // Must be valid UTF-8.
  Node literal(std::string_view text);
  // A JSON string including quotes; its unescaped value is in `meaning`.
  Node json_string(Regular meaning);
  Node object(ObjectForm form);
  Node array(ArrayForm form);
  // Any JSON value.
  Node json_value();

  Node sequence(std::span<const Node> parts);
  Node choice(std::span<const Node> parts);
  Node repeat(Node part, uint32_t min, uint32_t max);
  // Declares a rule that define() defines later; it may refer to itself, but not at its beginning.
  Node rule(std::string name);
  void define(Node rule, Node body);

  // Returns true once a limit is exceeded: later nodes are unusable, and finish() fails.
  bool exhausted() const;

  // May be called once. Errors: kInvalidArgument for a rule without definition, left recursion, a
  // grammar without any text, an exceeded limit.
  Result<Grammar> finish(Node start);

 private:
  std::unique_ptr<GrammarParts> parts_;  // null after finish()
  bool* is_out_of_work_;                 // of the limits
};

}  // namespace kvik::constrain
