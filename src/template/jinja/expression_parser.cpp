#include "template/jinja/expression_parser.h"

#include <algorithm>
#include <charconv>

namespace kvik::jinja {
namespace {

using Kind = Expr::Kind;

}  // namespace

Result<ExprPtr> ExpressionParser::checked(Expr expr) const {
  for (const ExprPtr& child : expr.children) {
    if (child) expr.depth = std::max(expr.depth, child->depth + 1);
  }
  for (const Argument& argument : expr.arguments) {
    expr.depth = std::max(expr.depth, argument.value->depth + 1);
  }
  if (expr.depth > kMaxDepth) {
    return s_.wrong("expected expressions at most {} deep", kMaxDepth);
  }
  return std::make_unique<const Expr>(std::move(expr));
}

Result<ExprPtr> ExpressionParser::expression(Conditional conditional) {
  const DepthGuard deeper(depth_);
  if (depth_ > kMaxDepth) {
    return s_.wrong("expected expressions at most {} deep", kMaxDepth);
  }
  TRY_ASSIGN(ExprPtr value, or_());
  while (conditional == Conditional::kAllowed && s_.skip_name("if")) {
    Expr expr = node(Kind::kConditional);
    TRY_ASSIGN(ExprPtr condition, or_());
    ExprPtr otherwise;
    if (s_.skip_name("else")) {
      TRY_ASSIGN(otherwise, expression());
    }
    TRY_ASSIGN(value, finish(std::move(expr), std::move(value), std::move(condition),
                             std::move(otherwise)));
  }
  return value;
}

bool ExpressionParser::ends_tuple() const {
  return s_.is(Token::Kind::kBlockEnd) || s_.is(Token::Kind::kOutputEnd) || s_.is_op(")") ||
         s_.is_name("in") || s_.is_op("=") || s_.is_name("recursive") || s_.is_name("if");
}

Result<ExprPtr> ExpressionParser::tuple(Conditional conditional) {
  Expr expr = node(Kind::kTuple);
  TRY_ASSIGN(ExprPtr first, expression(conditional));
  if (!s_.is_op(",")) return first;
  expr.children.push_back(std::move(first));
  while (s_.skip_op(",") && !ends_tuple()) {
    TRY_ASSIGN(ExprPtr next, expression(conditional));
    expr.children.push_back(std::move(next));
  }
  return finish(std::move(expr));
}

Result<ExprPtr> ExpressionParser::binary(Level level,
                                         std::initializer_list<std::string_view> operators) {
  TRY_ASSIGN(ExprPtr left, (this->*level)());
  while ((s_.is(Token::Kind::kOperator) || s_.is(Token::Kind::kName)) &&
         std::find(operators.begin(), operators.end(), s_.token().text) != operators.end()) {
    Expr expr = node(Kind::kBinary);
    expr.name = s_.next().text;
    if (expr.name == "or") expr.kind = Kind::kOr;
    if (expr.name == "and") expr.kind = Kind::kAnd;
    TRY_ASSIGN(ExprPtr right, (this->*level)());
    TRY_ASSIGN(left, finish(std::move(expr), std::move(left), std::move(right)));
  }
  return left;
}

Result<ExprPtr> ExpressionParser::or_() { return binary(&ExpressionParser::and_, {"or"}); }
Result<ExprPtr> ExpressionParser::and_() { return binary(&ExpressionParser::not_, {"and"}); }

Result<ExprPtr> ExpressionParser::not_() {
  const DepthGuard deeper(depth_);
  if (depth_ > kMaxDepth) return s_.wrong("expected fewer 'not'");
  Expr expr = node(Kind::kNot);
  if (!s_.skip_name("not")) return compare();
  TRY_ASSIGN(ExprPtr value, not_());
  return finish(std::move(expr), std::move(value));
}

std::optional<Comparison> ExpressionParser::skip_comparison() {
  constexpr std::pair<std::string_view, Comparison> kSigns[] = {
      {"==", Comparison::kEqual},  {"!=", Comparison::kUnequal}, {"<", Comparison::kLess},
      {"<=", Comparison::kAtMost}, {">", Comparison::kGreater},  {">=", Comparison::kAtLeast}};
  for (const auto& [sign, comparison] : kSigns) {
    if (s_.skip_op(sign)) return comparison;
  }
  if (s_.skip_name("in")) return Comparison::kIn;
  if (!s_.is_name("not") || !s_.name_follows("in")) return std::nullopt;
  s_.next();
  s_.next();
  return Comparison::kNotIn;
}

Result<ExprPtr> ExpressionParser::compare() {
  Expr expr = node(Kind::kCompare);
  TRY_ASSIGN(ExprPtr left, sum());
  expr.children.push_back(std::move(left));
  while (const auto comparison = skip_comparison()) {
    expr.comparisons.push_back(*comparison);
    TRY_ASSIGN(ExprPtr right, sum());
    expr.children.push_back(std::move(right));
  }
  if (expr.comparisons.empty()) return std::move(expr.children[0]);
  return finish(std::move(expr));
}

Result<ExprPtr> ExpressionParser::sum() { return binary(&ExpressionParser::concat, {"+", "-"}); }
Result<ExprPtr> ExpressionParser::concat() { return binary(&ExpressionParser::product, {"~"}); }
Result<ExprPtr> ExpressionParser::product() {
  return binary(&ExpressionParser::power, {"*", "/", "//", "%"});
}
Result<ExprPtr> ExpressionParser::power() { return binary(&ExpressionParser::plain_unary, {"**"}); }

Result<ExprPtr> ExpressionParser::unary(Filters filters) {
  const DepthGuard deeper(depth_);
  if (depth_ > kMaxDepth) return s_.wrong("expected fewer signs");
  ExprPtr value;
  if (s_.is_op("-") || s_.is_op("+")) {
    Expr expr = node(s_.is_op("-") ? Kind::kNegative : Kind::kPositive);
    s_.next();
    TRY_ASSIGN(ExprPtr operand, unary(Filters::kLeft));
    TRY_ASSIGN(value, finish(std::move(expr), std::move(operand)));
  } else {
    TRY_ASSIGN(value, primary());
  }
  TRY_ASSIGN(value, postfix(std::move(value)));
  return filters == Filters::kTaken ? filters_and_tests(std::move(value)) : std::move(value);
}

Result<ExprPtr> ExpressionParser::primary() {
  if (s_.is_op("(")) {
    s_.next();
    if (s_.skip_op(")")) return finish(node(Kind::kTuple));
    TRY_ASSIGN(ExprPtr inner, tuple());
    TRY(s_.expect_op(")"));
    return inner;
  }
  if (s_.is_op("[")) return list();
  if (s_.is_op("{")) return dict();
  return literal();
}

Result<ExprPtr> ExpressionParser::literal() {
  Expr expr = node(Kind::kLiteral);
  const Token token = s_.token();
  if (token.kind == Token::Kind::kString) {
    std::string text;
    while (s_.is(Token::Kind::kString)) text += s_.next().text;
    expr.literal = make_text(std::move(text));
    return finish(std::move(expr));
  }
  const char* begin = token.text.data();
  const char* end = begin + token.text.size();
  if (token.kind == Token::Kind::kInteger) {
    int64_t number = 0;
    if (std::from_chars(begin, end, number).ec != std::errc()) return s_.wrong("expected 64 bits");
    expr.literal = number;
  } else if (token.kind == Token::Kind::kFloat) {
    double number = 0;
    if (std::from_chars(begin, end, number).ec != std::errc()) return s_.wrong("expected a float");
    expr.literal = number;
  } else if (token.kind != Token::Kind::kName) {
    return s_.wrong("expected an expression");
  } else {
    return name();
  }
  s_.next();
  return finish(std::move(expr));
}

Result<ExprPtr> ExpressionParser::name() {
  Expr expr = node(Kind::kLiteral);
  const std::string text = s_.next().text;
  if (text == "true" || text == "True") {
    expr.literal = true;
  } else if (text == "false" || text == "False") {
    expr.literal = false;
  } else if (text == "none" || text == "None") {
    expr.literal = None{};
  } else {
    expr.kind = Kind::kName;
    expr.name = text;
    if (text == "caller") implicit_names_ |= kCaller;
    if (text == "varargs") implicit_names_ |= kVarargs;
    if (text == "kwargs") implicit_names_ |= kKwargs;
  }
  return finish(std::move(expr));
}

Result<ExprPtr> ExpressionParser::list() {
  Expr expr = node(Kind::kList);
  TRY(s_.list("[", "]", [&]() -> Result<void> {
    TRY_ASSIGN(ExprPtr item, expression());
    expr.children.push_back(std::move(item));
    return {};
  }));
  return finish(std::move(expr));
}

Result<ExprPtr> ExpressionParser::dict() {
  Expr expr = node(Kind::kDict);
  TRY(s_.list("{", "}", [&]() -> Result<void> {
    TRY_ASSIGN(ExprPtr key, expression());
    TRY(s_.expect_op(":"));
    TRY_ASSIGN(ExprPtr value, expression());
    expr.children.push_back(std::move(key));
    expr.children.push_back(std::move(value));
    return {};
  }));
  return finish(std::move(expr));
}

Result<ExprPtr> ExpressionParser::postfix(ExprPtr value) {
  while (true) {
    if (s_.is_op(".") || s_.is_op("[")) {
      TRY_ASSIGN(value, subscript(std::move(value)));
    } else if (s_.is_op("(")) {
      Expr expr = node(Kind::kCall);
      TRY_ASSIGN(expr.arguments, arguments());
      TRY_ASSIGN(value, finish(std::move(expr), std::move(value)));
    } else {
      return value;
    }
  }
}

Result<ExprPtr> ExpressionParser::subscript(ExprPtr value) {
  if (s_.skip_op("[")) return index_or_slice(std::move(value));
  s_.next();  // skips the dot
  Expr expr = node(Kind::kAttribute);
  if (s_.is(Token::Kind::kInteger)) {  // a.0 is a[0]
    expr.kind = Kind::kIndex;
    TRY_ASSIGN(ExprPtr number, literal());
    return finish(std::move(expr), std::move(value), std::move(number));
  }
  TRY_ASSIGN(expr.name, s_.expect_name());
  return finish(std::move(expr), std::move(value));
}

Result<ExprPtr> ExpressionParser::index_or_slice(ExprPtr value) {
  Expr expr = node(Kind::kIndex);
  expr.children.push_back(std::move(value));
  const auto at_end = [&] { return s_.is_op(":") || s_.is_op("]"); };
  while (true) {
    ExprPtr part;
    if (!at_end()) {
      TRY_ASSIGN(part, tuple());
    }
    expr.children.push_back(std::move(part));
    if (!s_.is_op(":") || expr.children.size() == 4) break;
    expr.kind = Kind::kSlice;
    s_.next();
  }
  TRY(s_.expect_op("]"));
  if (expr.kind == Kind::kIndex && !expr.children[1]) return s_.wrong("expected an index");
  if (expr.kind == Kind::kSlice) expr.children.resize(4);
  return finish(std::move(expr));
}

Result<std::vector<Argument>> ExpressionParser::arguments() {
  using Spread = Argument::Spread;
  std::vector<Argument> all;
  TRY(s_.list("(", ")", [&]() -> Result<void> {
    Argument argument;
    const bool follows_entries = !all.empty() && all.back().spread == Spread::kEntries;
    const bool follows_names = std::any_of(all.begin(), all.end(), [](const Argument& earlier) {
      return !earlier.name.empty() || earlier.spread != Spread::kNone;
    });
    if (s_.is(Token::Kind::kName) && s_.op_follows("=")) {
      argument.name = s_.next().text;
      s_.next();
    } else if (s_.skip_op("**")) {
      argument.spread = Spread::kEntries;
    } else if (s_.skip_op("*")) {
      argument.spread = Spread::kItems;
    } else if (follows_names) {
      return s_.wrong("expected a name for each argument after one with a name");
    }
    if (follows_entries) return s_.wrong("expected nothing after **");
    TRY_ASSIGN(argument.value, expression());
    all.push_back(std::move(argument));
    return {};
  }));
  return all;
}

Result<ExprPtr> ExpressionParser::filters(ExprPtr value) {
  do {
    Expr expr = node(Kind::kFilter);
    TRY_ASSIGN(expr.name, s_.expect_name());
    while (s_.skip_op(".")) {
      TRY_ASSIGN(const std::string part, s_.expect_name());
      expr.name += "." + part;
    }
    if (s_.is_op("(")) {
      TRY_ASSIGN(expr.arguments, arguments());
    }
    TRY_ASSIGN(value, finish(std::move(expr), std::move(value)));
  } while (s_.skip_op("|"));
  return value;
}

Result<ExprPtr> ExpressionParser::filters_and_tests(ExprPtr value) {
  while (true) {
    if (s_.skip_op("|")) {
      TRY_ASSIGN(value, filters(std::move(value)));
    } else if (s_.skip_name("is")) {
      TRY_ASSIGN(value, test(std::move(value)));
    } else if (s_.is_op("(")) {
      TRY_ASSIGN(value, postfix(std::move(value)));
    } else {
      return value;
    }
  }
}

Result<ExprPtr> ExpressionParser::test(ExprPtr value) {
  Expr negation = node(Kind::kNot);
  const bool is_negated = s_.skip_name("not");
  Expr expr = node(Kind::kTest);
  TRY_ASSIGN(expr.name, s_.expect_name());
  const Token::Kind kind = s_.token().kind;
  constexpr std::string_view kGrammar[] = {"else", "or", "and", "is", "not", "in", "if"};
  const bool is_word_of_grammar = std::ranges::count(kGrammar, s_.token().text) > 0;
  const bool begins_operand = kind == Token::Kind::kString || kind == Token::Kind::kInteger ||
                              kind == Token::Kind::kFloat || s_.is_op("[") || s_.is_op("{") ||
                              (kind == Token::Kind::kName && !is_word_of_grammar);
  if (s_.is_op("(")) {
    TRY_ASSIGN(expr.arguments, arguments());
  } else if (begins_operand) {
    TRY_ASSIGN(ExprPtr operand, primary());
    TRY_ASSIGN(operand, postfix(std::move(operand)));
    expr.arguments.push_back({"", std::move(operand)});
  }
  TRY_ASSIGN(ExprPtr tested, finish(std::move(expr), std::move(value)));
  if (!is_negated) return tested;
  return finish(std::move(negation), std::move(tested));
}

}  // namespace kvik::jinja
