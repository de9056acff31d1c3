#include "constrain/front/gbnf.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "constrain/front/grammar_text.h"
#include "constrain/front/rule_set.h"

namespace kvik::constrain {
namespace {

bool is_in_rule_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

class GbnfParser {
 public:
  GbnfParser(std::string_view text, Builder& builder) : text_(text), builder_(builder) {}

  Result<Node> parse() {
    skip_blanks();
    while (!text_.at_end()) TRY(rule());
    if (!rules_.is_defined("root")) return text_.wrong("there is no rule 'root'");
    return rules_.build(builder_, rules_.rule("root", 0));
  }

 private:
  // Skips whitespace and comments.
  void skip_blanks() {
    for (;;) {
      text_.take_while([](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; });
      if (text_.peek() != '#') return;
      text_.take_while([](char c) { return c != '\n'; });
    }
  }

  Result<uint32_t> name() {
    const size_t line = text_.line();
    const std::string_view name = text_.take_while(is_in_rule_name);
    if (name.empty())
      return text_.wrong(text_.at_end() ? "it ends where a name was expected"
                                        : "a name was expected");
    return rules_.rule(name, line);
  }

  Result<void> rule() {
    TRY_ASSIGN(const uint32_t rule, name());
    skip_blanks();
    if (!text_.take("::=")) return text_.wrong("expected '::=' after the name of a rule");
    skip_blanks();
    TRY_ASSIGN(Production body, alternatives());
    if (!rules_.define(rule, std::move(body)))
      return text_.wrong(fmt::format("the rule '{}' is defined twice", rules_.name(rule)));
    return {};
  }

  // Returns whether the name of the next rule and '::=' follow, which end the current rule.
  bool at_next_rule() const {
    size_t n = 0;
    while (is_in_rule_name(text_.peek(n))) ++n;
    if (n == 0) return false;
    while (text_.peek(n) == ' ' || text_.peek(n) == '\t' || text_.peek(n) == '\r' ||
           text_.peek(n) == '\n')
      ++n;
    return text_.peek(n) == ':' && text_.peek(n + 1) == ':' && text_.peek(n + 2) == '=';
  }

  Result<Production> alternatives() {
    if (++depth_ > kMaxGroupDepth)
      return text_.wrong(fmt::format("groups are nested deeper than {}", kMaxGroupDepth));
    std::vector<Production> all;
    do {
      skip_blanks();
      TRY_ASSIGN(Production one, sequence());
      all.push_back(std::move(one));
    } while (text_.take("|"));
    --depth_;
    return Production::choice(std::move(all));
  }

  Result<Production> sequence() {
    std::vector<Production> parts;
    for (;;) {
      skip_blanks();
      const char c = text_.peek();
      if (text_.at_end() || c == '|' || c == ')') break;
      if (is_in_rule_name(c) && at_next_rule()) break;
      TRY_ASSIGN(Production one, part());
      skip_blanks();
      TRY_ASSIGN(one, repeated(std::move(one)));
      parts.push_back(std::move(one));
      if (++n_parts_ > kMaxParts) return text_.wrong(fmt::format("more than {} parts", kMaxParts));
    }
    return Production::sequence(std::move(parts));
  }

  Result<Production> part() {
    const char c = text_.peek();
    if (is_in_rule_name(c)) {
      TRY_ASSIGN(const uint32_t rule, name());
      return Production::of_rule(rule);
    }
    if (text_.take("(")) {
      TRY_ASSIGN(Production inner, alternatives());
      if (!text_.take(")")) return text_.wrong("'(' without ')'");
      return inner;
    }
    if (text_.take("\"")) return literal();
    if (text_.take("[")) return character_class();
    if (text_.take(".")) return Production::of(builder_.text(builder_.regulars().any_character()));
    if (c == '<' || c == '!') return text_.unsupported("a token");
    return text_.wrong(fmt::format("'{}' was not expected", printable(c)));
  }

  static std::string printable(char c) {
    return c >= ' ' && c <= '~' ? std::string(1, c)
                                : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }

  Result<Production> literal() {
    std::u32string characters;
    while (!text_.take("\"")) {
      TRY_ASSIGN(const char32_t c, character());
      characters.push_back(c);
    }
    return Production::of(builder_.text(builder_.regulars().literal(characters)));
  }

  Result<Production> character_class() {
    const bool is_negated = text_.take("^");
    std::vector<CodePointSet::Range> ranges;
    while (!text_.take("]")) {
      TRY_ASSIGN(const char32_t first, character());
      char32_t last = first;
      if (text_.peek() == '-' && text_.peek(1) != ']') {
        text_.skip(1);
        TRY_ASSIGN(last, character());
      }
      if (last < first) return text_.wrong("a range whose end is less than its beginning");
      ranges.push_back({first, last});
    }
    CodePointSet set(std::move(ranges));
    return Production::of(
        builder_.text(builder_.regulars().characters(is_negated ? set.complement() : set)));
  }

  Result<char32_t> character() {
    if (!text_.take("\\")) return text_.character();
    const char c = text_.peek();
    text_.skip(1);
    TRY_ASSIGN(const std::optional<char32_t> common, text_.common_escape(c));
    if (common) return *common;
    switch (c) {
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
        return static_cast<char32_t>(c);
      default:
        return text_.wrong(fmt::format("the escape '\\{}' is unknown", printable(c)));
    }
  }

  Result<Production> repeated(Production part) {
    constexpr uint32_t kUnbounded = RegularPool::kUnbounded;
    if (text_.take("*")) return Production::repeat(std::move(part), 0, kUnbounded);
    if (text_.take("+")) return Production::repeat(std::move(part), 1, kUnbounded);
    if (text_.take("?")) return Production::repeat(std::move(part), 0, 1);
    if (!text_.take("{")) return part;
    TRY_ASSIGN(const auto min, number());
    uint32_t max = min.value_or(0);
    if (text_.take(",")) {
      TRY_ASSIGN(const auto given, number());
      max = given.value_or(kUnbounded);
    } else if (!min) {
      return text_.wrong("a repetition without a number");
    }
    if (!text_.take("}")) return text_.wrong("'{' without '}'");
    if (max < min.value_or(0))
      return text_.wrong("a repetition whose maximum is less than its minimum");
    return Production::repeat(std::move(part), min.value_or(0), max);
  }

  Result<std::optional<uint32_t>> number() {
    skip_blanks();
    TRY_ASSIGN(const auto number, text_.number());
    skip_blanks();
    return number;
  }

  GrammarText text_;
  Builder& builder_;
  RuleSet rules_;
  int depth_ = 0;
  size_t n_parts_ = 0;
};

}  // namespace

Result<Grammar> parse_gbnf(std::string_view text, const Limits& limits) {
  Builder builder(limits);
  TRY_ASSIGN(const Node root, add_gbnf(builder, text));
  return builder.finish(root);
}

Result<Node> add_gbnf(Builder& builder, std::string_view text) {
  return GbnfParser(text, builder).parse();
}

}  // namespace kvik::constrain
