#include "text/jinja/expression_parser.h"

#include <algorithm>
#include <charconv>

#include "text/jinja/parser.h"

namespace kvik::jinja {
namespace {

using Kind = Expr::Kind;

// Counts how deep the parser stands in itself.
class Deeper {
 public:
  explicit Deeper(uint32_t& depth) : depth_(depth) { ++depth_; }
  ~Deeper() { --depth_; }
  bool is_too_deep() const { return depth_ > kMaxDepth; }

 private:
  uint32_t& depth_;
};

}  // namespace

Result<ExprPtr> ExpressionParser::finish(Expr expr) const {
  for (const ExprPtr& child : expr.children) {
    if (child) expr.depth = std::max(expr.depth, child->depth + 1);
  }
  for (const Argument& argument : expr.arguments) {
    expr.depth = std::max(expr.depth, argument.value->depth + 1);
  }
  if (expr.depth > kMaxDepth) {
    return s_.wrong(fmt::format("expected expressions at most {} deep", kMaxDepth));
  }
  return std::make_unique<const Expr>(std::move(expr));
}

Result<ExprPtr> ExpressionParser::expression(Conditional conditional) {
  const Deeper deeper(depth_);
  if (deeper.is_too_deep()) {
    return s_.wrong(fmt::format("expected expressions at most {} deep", kMaxDepth));
  }
  TRY_ASSIGN(ExprPtr value, or_());
  while (conditional == Conditional::kAllowed && s_.skip_name("if")) {
    Expr expr = node(Kind::kConditional);
    TRY_ASSIGN(ExprPtr condition, or_());
    ExprPtr otherwise;
    if (s_.skip_name("else")) {
      TRY_ASSIGN(otherwise, expression());
    }
    expr.children.push_back(std::move(value));
    expr.children.push_back(std::move(condition));
    expr.children.push_back(std::move(otherwise));
    TRY_ASSIGN(value, finish(std::move(expr)));
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
  while (s_.is(Token::Kind::kOperator) &&
         std::find(operators.begin(), operators.end(), s_.token().text) != operators.end()) {
    Expr expr = node(Kind::kBinary);
    expr.name = s_.next().text;
    TRY_ASSIGN(ExprPtr right, (this->*level)());
    expr.children.push_back(std::move(left));
    expr.children.push_back(std::move(right));
    TRY_ASSIGN(left, finish(std::move(expr)));
  }
  return left;
}

Result<ExprPtr> ExpressionParser::or_() {
  TRY_ASSIGN(ExprPtr left, and_());
  while (s_.is_name("or")) {
    Expr expr = node(Kind::kOr);
    s_.next();
    TRY_ASSIGN(ExprPtr right, and_());
    expr.children.push_back(std::move(left));
    expr.children.push_back(std::move(right));
    TRY_ASSIGN(left, finish(std::move(expr)));
  }
  return left;
}

Result<ExprPtr> ExpressionParser::and_() {
  TRY_ASSIGN(ExprPtr left, not_());
  while (s_.is_name("and")) {
    Expr expr = node(Kind::kAnd);
    s_.next();
    TRY_ASSIGN(ExprPtr right, not_());
    expr.children.push_back(std::move(left));
    expr.children.push_back(std::move(right));
    TRY_ASSIGN(left, finish(std::move(expr)));
  }
  return left;
}

Result<ExprPtr> ExpressionParser::not_() {
  const Deeper deeper(depth_);
  if (deeper.is_too_deep()) return s_.wrong("expected fewer 'not'");
  Expr expr = node(Kind::kNot);
  if (!s_.skip_name("not")) return compare();
  TRY_ASSIGN(ExprPtr value, not_());
  expr.children.push_back(std::move(value));
  return finish(std::move(expr));
}

Result<ExprPtr> ExpressionParser::compare() {
  Expr expr = node(Kind::kCompare);
  TRY_ASSIGN(ExprPtr left, sum());
  expr.children.push_back(std::move(left));
  while (true) {
    const bool is_not_in = s_.is_name("not") && s_.token_after().kind == Token::Kind::kName &&
                           s_.token_after().text == "in";
    bool is_comparison = is_not_in || s_.is_name("in");
    for (const std::string_view op : {"==", "!=", "<", "<=", ">", ">="}) {
      is_comparison |= s_.is_op(op);
    }
    if (!is_comparison) break;
    std::string op = s_.next().text;
    if (is_not_in) op += " " + s_.next().text;
    expr.operators.push_back(std::move(op));
    TRY_ASSIGN(ExprPtr right, sum());
    expr.children.push_back(std::move(right));
  }
  if (expr.operators.empty()) return std::move(expr.children[0]);
  return finish(std::move(expr));
}

Result<ExprPtr> ExpressionParser::sum() { return binary(&ExpressionParser::concat, {"+", "-"}); }
Result<ExprPtr> ExpressionParser::concat() { return binary(&ExpressionParser::product, {"~"}); }
Result<ExprPtr> ExpressionParser::product() {
  return binary(&ExpressionParser::power, {"*", "/", "//", "%"});
}
Result<ExprPtr> ExpressionParser::power() { return binary(&ExpressionParser::plain_unary, {"**"}); }

Result<ExprPtr> ExpressionParser::unary(Filters filters) {
  const Deeper deeper(depth_);
  if (deeper.is_too_deep()) return s_.wrong("expected fewer signs");
  ExprPtr value;
  if (s_.is_op("-") || s_.is_op("+")) {
    Expr expr = node(s_.is_op("-") ? Kind::kNegative : Kind::kPositive);
    s_.next();
    TRY_ASSIGN(ExprPtr operand, unary(Filters::kLeft));
    expr.children.push_back(std::move(operand));
    TRY_ASSIGN(value, finish(std::move(expr)));
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
  } else if (token.text == "true" || token.text == "True") {
    expr.literal = true;
  } else if (token.text == "false" || token.text == "False") {
    expr.literal = false;
  } else if (token.text == "none" || token.text == "None") {
    expr.literal = None{};
  } else {
    expr.kind = Kind::kName;
    expr.name = token.text;
    if (token.text == "caller") implicit_names_ |= kCaller;
    if (token.text == "varargs") implicit_names_ |= kVarargs;
    if (token.text == "kwargs") implicit_names_ |= kKwargs;
  }
  s_.next();
  return finish(std::move(expr));
}

Result<ExprPtr> ExpressionParser::list() {
  Expr expr = node(Kind::kList);
  TRY(s_.expect_op("["));
  while (!s_.is_op("]")) {
    TRY_ASSIGN(ExprPtr item, expression());
    expr.children.push_back(std::move(item));
    if (!s_.skip_op(",")) break;
  }
  TRY(s_.expect_op("]"));
  return finish(std::move(expr));
}

Result<ExprPtr> ExpressionParser::dict() {
  Expr expr = node(Kind::kDict);
  TRY(s_.expect_op("{"));
  while (!s_.is_op("}")) {
    TRY_ASSIGN(ExprPtr key, expression());
    TRY(s_.expect_op(":"));
    TRY_ASSIGN(ExprPtr value, expression());
    expr.children.push_back(std::move(key));
    expr.children.push_back(std::move(value));
    if (!s_.skip_op(",")) break;
  }
  TRY(s_.expect_op("}"));
  return finish(std::move(expr));
}

Result<ExprPtr> ExpressionParser::postfix(ExprPtr value) {
  while (true) {
    if (s_.is_op(".") || s_.is_op("[")) {
      TRY_ASSIGN(value, subscript(std::move(value)));
    } else if (s_.is_op("(")) {
      Expr expr = node(Kind::kCall);
      TRY_ASSIGN(expr.arguments, arguments());
      expr.children.push_back(std::move(value));
      TRY_ASSIGN(value, finish(std::move(expr)));
    } else {
      return value;
    }
  }
}

Result<ExprPtr> ExpressionParser::subscript(ExprPtr value) {
  if (s_.skip_op("[")) return index_or_slice(std::move(value));
  s_.next();  // the dot
  Expr expr = node(Kind::kAttribute);
  if (s_.is(Token::Kind::kInteger)) {  // a.0 is a[0]
    expr.kind = Kind::kIndex;
    TRY_ASSIGN(ExprPtr number, literal());
    expr.children.push_back(std::move(value));
    expr.children.push_back(std::move(number));
    return finish(std::move(expr));
  }
  TRY_ASSIGN(expr.name, s_.expect_name());
  expr.children.push_back(std::move(value));
  return finish(std::move(expr));
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
  TRY(s_.expect_op("("));
  while (!s_.is_op(")")) {
    Argument argument;
    const bool follows_entries = !all.empty() && all.back().spread == Spread::kEntries;
    const bool follows_names = std::any_of(all.begin(), all.end(), [](const Argument& earlier) {
      return !earlier.name.empty() || earlier.spread != Spread::kNone;
    });
    const bool is_named = s_.is(Token::Kind::kName) &&
                          s_.token_after().kind == Token::Kind::kOperator &&
                          s_.token_after().text == "=";
    if (is_named) {
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
    if (!s_.skip_op(",")) break;
  }
  TRY(s_.expect_op(")"));
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
    expr.children.push_back(std::move(value));
    TRY_ASSIGN(value, finish(std::move(expr)));
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
  expr.children.push_back(std::move(value));
  const Token::Kind kind = s_.token().kind;
  const bool is_word_of_grammar = s_.is_name("else") || s_.is_name("or") || s_.is_name("and") ||
                                  s_.is_name("is") || s_.is_name("not") || s_.is_name("in") ||
                                  s_.is_name("if");
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
  TRY_ASSIGN(ExprPtr tested, finish(std::move(expr)));
  if (!is_negated) return tested;
  negation.children.push_back(std::move(tested));
  return finish(std::move(negation));
}

}  // namespace kvik::jinja
