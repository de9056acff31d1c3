#include "constrain/front/lark.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "constrain/front/grammar_text.h"
#include "constrain/front/lark_common.h"
#include "constrain/front/rule_set.h"
#include "constrain/json_schema.h"
#include "constrain/pattern/pattern.h"
#include "constrain/unicode_class.h"

namespace kvik::constrain {
namespace {

constexpr std::string_view kIgnored = "%ignore";  // name of the rule for ignored text

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_name_begin(char c) { return is_name(c) && !(c >= '0' && c <= '9'); }

// Returns whether the name is that of a terminal: its first letter is uppercase.
bool is_terminal(std::string_view name) {
  const size_t first = name.find_first_not_of('_');
  return first != std::string_view::npos && name[first] >= 'A' && name[first] <= 'Z';
}

class LarkParser {
 public:
  LarkParser(std::string_view text, Builder& builder, const SchemaOptions& schema_options)
      : text_(text),
        builder_(builder),
        schema_options_(schema_options),
        ignored_rule_(rules_.rule(kIgnored, 0)) {}

  Result<Node> parse() {
    for (skip_lines(); !text_.at_end(); skip_lines()) {
      if (text_.peek() == '%')
        TRY(statement());
      else
        TRY(rule());
    }
    if (!rules_.is_defined("start")) return text_.wrong("there is no rule 'start'");
    rules_.define(ignored_rule_, Production::repeat(Production::choice(std::move(ignored_)), 0,
                                                    RegularPool::kUnbounded));
    return rules_.build(builder_, rules_.rule("start", 0));
  }

 private:
  enum class In : uint8_t { kRule, kTerminal };

  void skip_comment() {
    if (text_.sees("//") || text_.sees("#")) text_.take_while([](char c) { return c != '\n'; });
  }
  // Skips whitespace and comments up to the end of the line. Within a group, line ends are skipped
  // as well.
  void skip_blanks() {
    if (depth_ > 1) return skip_lines();
    text_.take_while([](char c) { return c == ' ' || c == '\t' || c == '\r'; });
    skip_comment();
  }
  void skip_lines() {
    for (size_t left = text_.rest().size() + 1; left > text_.rest().size();) {
      left = text_.rest().size();
      text_.take_while([](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; });
      skip_comment();
    }
  }
  // Skips the '|' before another alternative, which may be on a later line. Reads nothing if there
  // is none.
  bool take_bar() {
    const GrammarText before = text_;
    skip_lines();
    if (text_.take("|")) return true;
    text_ = before;
    return false;
  }

  std::unexpected<Error> unexpected_byte() const {
    if (text_.at_end()) return text_.wrong("it ends unexpectedly");
    const char c = text_.peek();
    return text_.wrong(c >= ' ' && c <= '~' ? fmt::format("'{}' was not expected", c)
                                            : fmt::format("byte {} was not expected",
                                                          static_cast<unsigned char>(c)));
  }

  Result<std::string> name() {
    if (!is_name_begin(text_.peek())) return unexpected_byte();
    return std::string(text_.take_while(is_name));
  }

  Result<void> rule() {
    // these only affect the parse tree
    text_.take_while([](char c) { return c == '?' || c == '!'; });
    const size_t line = text_.line();
    TRY_ASSIGN(const std::string rule_name, name());
    if (text_.sees("{")) return text_.unsupported("a template");
    if (text_.sees("[")) return text_.unsupported("a rule's attribute");
    skip_blanks();
    if (text_.take(".")) TRY(text_.number());  // the priority only affects Lark's parser
    skip_blanks();
    if (!text_.take(":")) return text_.wrong(fmt::format("expected ':' after '{}'", rule_name));
    in_ = is_terminal(rule_name) ? In::kTerminal : In::kRule;
    TRY_ASSIGN(Production body, alternatives());
    TRY(end_of_line());
    return define(rule_name, line, std::move(body));
  }

  Result<void> define(std::string_view name, size_t line, Production body) {
    if (rules_.define(rules_.rule(name, line), std::move(body))) return {};
    return text_.wrong(fmt::format("'{}' is defined twice", name));
  }

  Result<void> end_of_line() {
    skip_blanks();
    if (!text_.at_end() && text_.peek() != '\n') return unexpected_byte();
    return {};
  }

  Result<void> statement() {
    if (text_.take("%ignore")) {
      in_ = In::kTerminal;
      TRY_ASSIGN(Production what, alternatives());
      ignored_.push_back(std::move(what));
      return end_of_line();
    }
    if (text_.take("%import")) return import_terminals();
    if (text_.take("%llguidance")) {
      skip_blanks();
      if (!text_.take("{}")) return text_.unsupported("an option of LLGuidance");
      return end_of_line();
    }
    const std::string_view word = text_.rest().substr(0, text_.rest().find_first_of(" \t\r\n"));
    return text_.unsupported(fmt::format("'{}'", word.substr(0, 20)));
  }

  // Reads %import common.NAME, %import common.NAME -> NAME, %import common (NAME, …).
  Result<void> import_terminals() {
    skip_blanks();
    if (!text_.take("common"))
      return text_.unsupported("an import from a module other than 'common'");
    if (text_.take(".")) {
      const size_t line = text_.line();
      TRY_ASSIGN(const std::string common, name());
      std::string here = common;
      skip_blanks();
      if (text_.take("->")) {
        skip_blanks();
        TRY_ASSIGN(here, name());
      }
      TRY(import_terminal(common, here, line));
      return end_of_line();
    }
    skip_blanks();
    if (!text_.take("(")) return unexpected_byte();
    do {
      skip_lines();
      TRY_ASSIGN(const std::string common, name());
      TRY(import_terminal(common, common, text_.line()));
      skip_lines();
    } while (text_.take(","));
    if (!text_.take(")")) return unexpected_byte();
    return end_of_line();
  }

  Result<void> import_terminal(std::string_view common, std::string_view here, size_t line) {
    const auto regex = lark_common_terminal(common);
    if (!regex) return text_.wrong(fmt::format("'common' has no terminal '{}'", common));
    TRY_ASSIGN(const Regular text, parse_pattern(builder_.regulars(), *regex, {}));
    return define(here, line, Production::of(builder_.text(text)));
  }

  Result<Production> alternatives() {
    if (++depth_ > kMaxGroupDepth)
      return text_.wrong(fmt::format("groups are nested deeper than {}", kMaxGroupDepth));
    std::vector<Production> all;
    take_bar();  // a '|' may also precede the first alternative
    do {
      TRY_ASSIGN(Production one, sequence());
      all.push_back(std::move(one));
    } while (take_bar());
    --depth_;
    return Production::choice(std::move(all));
  }

  Result<Production> sequence() {
    std::vector<Production> parts;
    for (skip_blanks();; skip_blanks()) {
      const char c = text_.peek();
      if (text_.at_end() || c == '|' || c == ')' || c == ']' || c == '\n') break;
      if (text_.take("->")) {  // an alias only affects the parse tree
        skip_blanks();
        TRY(name());
        break;
      }
      TRY_ASSIGN(Production one, part());
      TRY_ASSIGN(one, repeated(std::move(one)));
      parts.push_back(std::move(one));
      if (++n_parts_ > kMaxParts) return text_.wrong(fmt::format("more than {} parts", kMaxParts));
    }
    return Production::sequence(std::move(parts));
  }

  Result<Production> part() {
    const char c = text_.peek();
    if (is_name_begin(c)) return reference();
    if (text_.take("(")) {
      TRY_ASSIGN(Production inner, alternatives());
      skip_lines();
      if (!text_.take(")")) return text_.wrong("'(' without ')'");
      return inner;
    }
    if (text_.take("[")) {
      TRY_ASSIGN(Production inner, alternatives());
      skip_lines();
      if (!text_.take("]")) return text_.wrong("'[' without ']'");
      return Production::repeat(std::move(inner), 0, 1);
    }
    if (c == '"') return text_or_range();
    if (c == '/') return regex();
    if (text_.take("%json")) return schema();
    if (c == '<') return text_.unsupported("a token");
    if (c == '@') return text_.unsupported("another grammar");
    if (c == '&' || c == '~') return text_.unsupported(fmt::format("'{}'", c));
    if (c == '%') return text_.unsupported(text_.sees("%regex") ? "'%regex'" : "'%' within a rule");
    return unexpected_byte();
  }

  // Allows ignored text after a terminal that is used in a rule. Terminals used within a terminal
  // do not allow it.
  Production terminal(Production what) {
    if (in_ == In::kTerminal) return what;
    std::vector<Production> parts;
    parts.push_back(std::move(what));
    parts.push_back(Production::of_rule(ignored_rule_));
    return Production::sequence(std::move(parts));
  }
  Production terminal(Regular text) { return terminal(Production::of(builder_.text(text))); }

  Result<Production> reference() {
    const size_t line = text_.line();
    TRY_ASSIGN(const std::string referred, name());
    if (text_.sees("{") && !is_count()) return text_.unsupported("a template");
    if (in_ == In::kTerminal && !is_terminal(referred))
      return text_.wrong(fmt::format("a terminal is made of the rule '{}'", referred));
    Production what = Production::of_rule(rules_.rule(referred, line));
    return is_terminal(referred) ? terminal(std::move(what)) : std::move(what);
  }

  // Returns whether the text after a brace is the bounds of a repetition.
  bool is_count() const {
    for (size_t n = 1;; ++n) {
      const char c = text_.peek(n);
      if (c != ' ' && c != ',') return c >= '0' && c <= '9';
    }
  }

  Result<Production> text_or_range() {
    TRY_ASSIGN(const std::u32string first, quoted());
    RegularPool& pool = builder_.regulars();
    if (text_.take("i")) {
      std::vector<Regular> parts;
      for (const char32_t c : first) parts.push_back(pool.characters(close_over_case({{c, c}})));
      return terminal(pool.sequence(parts));
    }
    if (!text_.sees("..")) return terminal(pool.literal(first));
    text_.take("..");
    TRY_ASSIGN(const std::u32string last, quoted());
    if (first.size() != 1 || last.size() != 1 || last[0] < first[0])
      return text_.wrong("a range that is not from one character to a later one");
    return terminal(pool.characters({{first[0], last[0]}}));
  }

  Result<std::u32string> quoted() {
    if (!text_.take("\"")) return unexpected_byte();
    std::u32string characters;
    while (!text_.take("\"")) {
      if (text_.peek() == '\n') return text_.wrong("a text without end");
      TRY_ASSIGN(const char32_t c, character());
      characters.push_back(c);
    }
    return characters;
  }

  Result<char32_t> character() {
    if (!text_.take("\\")) return text_.character();
    const char c = text_.peek();
    text_.skip(1);
    TRY_ASSIGN(const std::optional<char32_t> common, text_.common_escape(c));
    if (common) return *common;
    switch (c) {
      case 'f':
        return U'\f';
      case 'b':
        return U'\b';
      case '\\':
      case '\'':
      case '/':
      case '"':
        return static_cast<char32_t>(c);
      default:
        return text_.wrong("an unknown escape");
    }
  }

  Result<Production> regex() {
    text_.take("/");
    std::string expression;
    while (!text_.take("/")) {
      if (text_.at_end() || text_.peek() == '\n')
        return text_.wrong("a regular expression without end");
      if (text_.sees("\\/")) text_.skip(1);
      if (text_.sees("\\")) {
        expression += '\\';
        text_.skip(1);
      }
      TRY_ASSIGN(const char32_t c, text_.character());
      append_utf8(c, expression);
    }
    PatternOptions options;
    for (;;) {
      if (text_.take("i"))
        options.letters = PatternOptions::Letters::kCaseless;
      else if (text_.take("s"))
        options.dot = PatternOptions::Dot::kAny;
      else if (!text_.take("u"))
        break;
    }
    if (is_name_begin(text_.peek())) return text_.unsupported("a flag of a regular expression");
    const auto parsed = parse_pattern(builder_.regulars(), expression, options);
    if (parsed) return terminal(*parsed);
    return fail(parsed.error().code,
                fmt::format("line {} of the grammar: {}", text_.line(), parsed.error().message));
  }

  Result<Production> schema() {
    skip_lines();
    const std::string_view json = text_.rest().substr(0, json_bytes());
    TRY_ASSIGN(const SchemaNode node, add_json_schema(builder_, json, schema_options_));
    text_.skip(json.size());
    return terminal(Production::of(node.start));
  }

  // Returns the length of the JSON object that begins here, found by its braces. The schema parser
  // checks its syntax.
  size_t json_bytes() const {
    const std::string_view text = text_.rest();
    size_t depth = 0;
    bool is_in_string = false;
    for (size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (is_in_string && c == '\\')
        ++i;
      else if (c == '"')
        is_in_string = !is_in_string;
      else if (!is_in_string && c == '{')
        ++depth;
      else if (!is_in_string && c == '}' && (depth == 0 || --depth == 0))
        return i + 1;
    }
    return text.size();
  }

  Result<Production> repeated(Production part) {
    constexpr uint32_t kUnbounded = RegularPool::kUnbounded;
    if (text_.take("*")) return Production::repeat(std::move(part), 0, kUnbounded);
    if (text_.take("+")) return Production::repeat(std::move(part), 1, kUnbounded);
    if (text_.take("?")) return Production::repeat(std::move(part), 0, 1);
    skip_blanks();
    if (text_.take("~")) return repeated_between(std::move(part), "..");
    if (!text_.sees("{") || !is_count()) return part;
    text_.take("{");
    TRY_ASSIGN(Production all, repeated_between(std::move(part), ","));
    skip_blanks();
    if (!text_.take("}")) return text_.wrong("'{' without '}'");
    return all;
  }

  // Reads 2, 2..5 or 2,5. With a comma either number may be omitted.
  Result<Production> repeated_between(Production part, std::string_view between) {
    TRY_ASSIGN(const auto min, count());
    std::optional<uint32_t> max = min;
    if (text_.take(between)) {
      TRY_ASSIGN(max, count());
      if (!max && between == ",") max = RegularPool::kUnbounded;
    }
    if (!max || (!min && between != ",")) return text_.wrong("a repetition without a number");
    if (*max < min.value_or(0))
      return text_.wrong("a repetition whose maximum is less than its minimum");
    return Production::repeat(std::move(part), min.value_or(0), *max);
  }

  Result<std::optional<uint32_t>> count() {
    skip_blanks();
    TRY_ASSIGN(const auto number, text_.number());
    skip_blanks();
    return number;
  }

  GrammarText text_;
  Builder& builder_;
  const SchemaOptions& schema_options_;
  RuleSet rules_;
  const uint32_t ignored_rule_;
  std::vector<Production> ignored_;
  In in_ = In::kRule;
  int depth_ = 0;
  size_t n_parts_ = 0;
};

}  // namespace

Result<Grammar> parse_lark(std::string_view text, const SchemaOptions& options) {
  Builder builder(options.limits, options.whitespace, options.numbers());
  TRY_ASSIGN(const Node start, add_lark(builder, text, options));
  return builder.finish(start);
}

Result<Node> add_lark(Builder& builder, std::string_view text, const SchemaOptions& options) {
  return LarkParser(text, builder, options).parse();
}

}  // namespace kvik::constrain
