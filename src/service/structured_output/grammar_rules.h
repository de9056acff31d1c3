#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace kvik {

// A node of a grammar that is built by the program rather than parsed.
struct GrammarNode {
  enum class Kind : uint8_t {
    kText,      // the literal `text`, in UTF-8
    kPattern,   // `text`: a regular expression whose dot matches line breaks too
    kSchema,    // `text`: a JSON schema
    kGrammar,   // `text`: a GBNF or Lark grammar
    kSequence,  // all `parts` in order; `text` may name their place in a request, for errors
    kChoice,    // one of `parts`
    kRepeat,    // the only part, `min` to `max` times
    kRule,      // reference to rule number `rule`
  };
  static constexpr uint32_t kUnbounded = std::numeric_limits<uint32_t>::max();

  Kind kind = Kind::kText;
  std::string text = {};
  std::vector<GrammarNode> parts = {};
  uint32_t min = 0, max = 0;
  uint32_t rule = 0;

  static GrammarNode of_text(std::string text) {
    return {.kind = Kind::kText, .text = std::move(text)};
  }
  static GrammarNode of_pattern(std::string pattern) {
    return {.kind = Kind::kPattern, .text = std::move(pattern)};
  }
  static GrammarNode of_schema(std::string schema) {
    return {.kind = Kind::kSchema, .text = std::move(schema)};
  }
  static GrammarNode of_grammar(std::string grammar) {
    return {.kind = Kind::kGrammar, .text = std::move(grammar)};
  }
  static GrammarNode sequence(std::vector<GrammarNode> parts) {
    return {.kind = Kind::kSequence, .parts = std::move(parts)};
  }
  static GrammarNode choice(std::vector<GrammarNode> parts) {
    return {.kind = Kind::kChoice, .parts = std::move(parts)};
  }
  static GrammarNode repeat(GrammarNode part, uint32_t min, uint32_t max) {
    GrammarNode node{.kind = Kind::kRepeat, .min = min, .max = max};
    node.parts.push_back(std::move(part));
    return node;
  }

  friend bool operator==(const GrammarNode&, const GrammarNode&) = default;
};

// The rules of a grammar. A node may refer only to earlier rules. The last rule is the start rule.
struct GrammarRules {
  std::vector<GrammarNode> rules;

  // Adds a rule and returns a node that refers to it.
  GrammarNode add(GrammarNode body) {
    rules.push_back(std::move(body));
    return {.kind = GrammarNode::Kind::kRule, .rule = static_cast<uint32_t>(rules.size() - 1)};
  }

  friend bool operator==(const GrammarRules&, const GrammarRules&) = default;
};

// Return the memory used, in bytes.
size_t n_bytes(const GrammarNode& node);
size_t n_bytes(const GrammarRules& rules);

}  // namespace kvik
