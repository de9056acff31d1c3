#pragma once

#include <utility>

#include "template/jinja/parser_state.h"

namespace kvik::jinja {

// Parses expressions with Jinja's precedence, lowest first: if-else, or, and, not, comparison, + -,
// ~, * / // %, **, sign, then the postfix operators .name, [index], (call), | filter, is test.
class ExpressionParser {
 public:
  explicit ExpressionParser(ParserState& state) : s_(state) {}

  enum class Conditional { kAllowed, kNot };
  Result<ExprPtr> expression(Conditional conditional = Conditional::kAllowed);

  // Parses an expression, or a tuple of several separated by commas.
  Result<ExprPtr> tuple(Conditional conditional = Conditional::kAllowed);

  // Parses filters that are applied to `value`, which is null in a filtered block.
  Result<ExprPtr> filters(ExprPtr value);

  Result<ExprPtr> postfix(ExprPtr value);
  Result<ExprPtr> primary();
  Result<std::vector<Argument>> arguments();

  // Returns the ImplicitNames that were read since the last call.
  uint8_t take_implicit_names() { return std::exchange(implicit_names_, 0); }
  void add_implicit_names(uint8_t names) { implicit_names_ |= names; }

 private:
  enum class Filters { kTaken, kLeft };
  using Level = Result<ExprPtr> (ExpressionParser::*)();

  Result<ExprPtr> or_();
  Result<ExprPtr> and_();
  Result<ExprPtr> not_();
  Result<ExprPtr> compare();
  std::optional<Comparison> skip_comparison();
  Result<ExprPtr> sum();
  Result<ExprPtr> concat();
  Result<ExprPtr> product();
  Result<ExprPtr> power();
  Result<ExprPtr> plain_unary() { return unary(Filters::kTaken); }
  Result<ExprPtr> unary(Filters filters);
  Result<ExprPtr> binary(Level level, std::initializer_list<std::string_view> operators);
  Result<ExprPtr> subscript(ExprPtr value);
  Result<ExprPtr> index_or_slice(ExprPtr value);
  Result<ExprPtr> test(ExprPtr value);
  Result<ExprPtr> filters_and_tests(ExprPtr value);
  Result<ExprPtr> list();
  Result<ExprPtr> dict();
  Result<ExprPtr> literal();
  Result<ExprPtr> name();
  bool ends_tuple() const;

  Expr node(Expr::Kind kind) const { return Expr{.kind = kind, .line = s_.token().line}; }
  // Returns the node with `children` appended.
  template <class... Children>
  Result<ExprPtr> finish(Expr expr, Children... children) const {
    (expr.children.push_back(std::move(children)), ...);
    return checked(std::move(expr));
  }
  Result<ExprPtr> checked(Expr expr) const;

  ParserState& s_;
  uint32_t depth_ = 0;
  uint8_t implicit_names_ = 0;
};

}  // namespace kvik::jinja
