#include "service/structured_output/grammar_builder.h"

#include <fmt/format.h>

#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "constrain/front/gbnf.h"
#include "constrain/front/grammar_text.h"
#include "constrain/front/lark.h"
#include "constrain/pattern/pattern.h"
#include "service/structured_output/structured_output.h"

namespace kvik {
namespace {

using constrain::Builder;
using constrain::Node;

class TreeBuilder {
 public:
  TreeBuilder(Builder& builder, const constrain::SchemaOptions& options)
      : builder_(builder), options_(options) {}

  // Returns the node of the last rule.
  Result<Node> build(const GrammarRules& rules) {
    CHECK(!rules.rules.empty());
    for (const GrammarNode& rule : rules.rules) {
      TRY_ASSIGN(const Node made, make(rule));
      made_.push_back(made);
    }
    return made_.back();
  }

 private:
  Result<Node> make(const GrammarNode& node) {
    using enum GrammarNode::Kind;
    if (++n_nodes_ > constrain::kMaxParts) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("the grammar has more than {} parts", constrain::kMaxParts));
    }
    switch (node.kind) {
      case kText:
        TRY(check_text(node.text));
        return builder_.literal(node.text);
      case kPattern: {
        TRY(check_text(node.text));
        TRY_ASSIGN(const constrain::Regular text,
                   constrain::parse_pattern(builder_.regulars(), node.text,
                                            {.dot = constrain::PatternOptions::Dot::kAny}));
        return builder_.text(text);
      }
      case kSchema: {
        TRY_ASSIGN(const auto schema, constrain::add_json_schema(builder_, node.text, options_));
        return schema.start;
      }
      case kGrammar:
        TRY(check_text(node.text));
        if (grammar_kind(node.text) == StructuredOutput::Kind::kGbnf)
          return constrain::add_gbnf(builder_, node.text);
        return constrain::add_lark(builder_, node.text, options_);
      case kRule:
        return made_[node.rule];
      case kSequence:
      case kChoice:
      case kRepeat:
        break;
    }
    std::vector<Node> parts;
    for (const GrammarNode& part : node.parts) {
      auto made = make(part);
      if (!made) return located(std::move(made.error()), node.text);
      parts.push_back(*made);
    }
    if (node.kind == kSequence) return builder_.sequence(parts);
    if (node.kind == kChoice) return builder_.choice(parts);
    return builder_.repeat(parts.front(), node.min, node.max);
  }

  // Returns the error of a node whose place in the request is known.
  static std::unexpected<Error> located(Error error, std::string_view place) {
    if (!place.empty()) error.message = fmt::format("{}: {}", place, error.message);
    return std::unexpected(std::move(error));
  }

  static Result<void> check_text(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
      const Utf8Step step = next_utf8(text, at);
      if (step.kind != Utf8Step::Kind::kValid) {
        return fail(ErrorCode::kInvalidArgument, "the grammar contains invalid UTF-8");
      }
      at += step.n_bytes;
    }
    return {};
  }

  Builder& builder_;
  const constrain::SchemaOptions& options_;
  std::vector<Node> made_;  // by rule
  size_t n_nodes_ = 0;
};

}  // namespace

Result<constrain::Grammar> build_grammar(const GrammarRules& rules,
                                         const constrain::SchemaOptions& options) {
  Builder builder(options.limits, options.whitespace, options.numbers());
  TRY_ASSIGN(const Node start, TreeBuilder(builder, options).build(rules));
  return builder.finish(start);
}

}  // namespace kvik
