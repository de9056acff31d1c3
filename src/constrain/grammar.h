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

// A set of texts that may nest, as a number of a Builder.
enum class Node : uint32_t { kNothing = 0, kEmptyText = 1 };
inline uint32_t id_of(Node n) { return static_cast<uint32_t>(n); }

// What compiling and matching may take. Beyond it there is an error, never a wrong answer.
struct Limits {
  uint32_t max_expressions = 400'000;       // of a grammar, once compiled
  uint32_t max_nodes = 400'000;             //
  uint32_t max_live_expressions = 600'000;  // made while matching, before what is old is dropped
  uint32_t max_threads = 2048;              // readings of one text at a time
  // Steps of some ten nanoseconds: for what a client sends, and for each token of an answer.
  uint64_t max_work = 4'000'000;
  uint64_t max_work_per_token = 10'000'000;
  // Bytes of what a matcher has learned while it works on one token.
  size_t max_matching_bytes = size_t{32} << 20;
  // Where compiling says whether it failed for want of steps, so that a larger max_work might
  // suffice; null: nobody asks. A compiled grammar does not keep it.
  bool* is_out_of_work = nullptr;
};

// White space between the parts of JSON objects and arrays.
struct Whitespace {
  uint32_t max_run = 0;  // blanks, tabs and line ends wherever JSON allows them; 0: none
  // Without `max_run`: one blank may follow each ':' and ','.
  bool spaces_after_marks = false;

  static constexpr Whitespace spaced() { return {.max_run = 0, .spaces_after_marks = true}; }
};

// Syntax of JSON numbers that have no bounds of their own.
enum class Numbers : uint8_t {
  kAny,      // as JSON has it
  kBounded,  // up to 17 significant digits, finite as a double, no minus zero
};

// A JSON object; no property occurs twice.
struct ObjectForm {
  // Another way to read a property's value, and which of the witnesses it is then, as bits.
  struct Witness {
    Node value;
    uint32_t is;
  };
  struct Property {
    std::u32string name;
    Node value;  // kNothing: not allowed
    bool required = false;
    std::vector<uint32_t> needs;  // properties that must be there where this one is
    std::vector<Witness> also = {};
  };
  struct Others {
    Regular names;  // as the string is meant, not as it is written; less those of `properties`
    Node value;
    std::vector<Witness> also = {};
  };
  std::vector<Property> properties;
  std::vector<Others> others;  // whose names have nothing in common
  // So many witnesses there must be; one property may be several. At most 8.
  uint32_t n_witnesses = 0;
  uint32_t min = 0;
  uint32_t max = RegularPool::kUnbounded;
  // Properties come in the order of `properties`, others after them. Ignored where witnesses are
  // counted, where the minimum depends on which properties were skipped, and among values that are
  // compared with each other (uniqueItems): any order is allowed there.
  bool ordered = false;
};

// A JSON array.
struct ArrayForm {
  // One way to read an item, and which of `counts` it adds to, as bits.
  struct Item {
    Node value;
    uint32_t counts = 0;
  };
  struct Count {
    uint32_t min = 0;
    uint32_t max = RegularPool::kUnbounded;
  };
  std::vector<std::vector<Item>> first;  // by place
  std::vector<Item> rest;                // behind those; none: the array ends there
  std::vector<Count> counts;
  bool unique = false;    // no two items are equal, as JSON values
  bool repeated = false;  // some two are; without `counts`
  // Of `repeated`: the values that may stand at both of two places, the earlier one first; the
  // place behind `first` is that of all others.
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
  // Bytes that the compiled grammar takes.
  size_t bytes() const;

 private:
  std::shared_ptr<const GrammarParts> parts_;  // shared with what matches by it
};

// Puts a grammar together. Regular parts are cheaper than others, and become one where they stand
// side by side. One thread.
class Builder {
 public:
  explicit Builder(const Limits& limits = {}, Whitespace whitespace = {},
                   Numbers numbers = Numbers::kAny);
  ~Builder();
  Builder(Builder&&) noexcept;

  RegularPool& regulars();

  // The text itself, in UTF-8.
  Node text(Regular text);
  // Its UTF-8 must be valid.
  Node literal(std::string_view text);
  // A JSON string, quotes included, that means one of these texts.
  Node json_string(Regular meaning);
  Node object(ObjectForm form);
  Node array(ArrayForm form);
  // Any JSON value.
  Node json_value();

  Node sequence(std::span<const Node> parts);
  Node choice(std::span<const Node> parts);
  Node repeat(Node part, uint32_t min, uint32_t max);
  // A name for what define() says later; it may refer to itself, but not at its own beginning.
  Node rule(std::string name);
  void define(Node rule, Node body);

  // True once a limit is met: what is made from there on is of no use, and finish() fails.
  bool exhausted() const;

  // Once. Errors, as kInvalidArgument: a rule without a definition, one that begins with itself,
  // nothing that could be written, a limit met.
  Result<Grammar> finish(Node start);

 private:
  std::unique_ptr<GrammarParts> parts_;  // null once finished
  bool* is_out_of_work_;                 // of the limits
};

}  // namespace kvik::constrain
