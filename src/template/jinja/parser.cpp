#include <algorithm>

#include "template/jinja/expression_parser.h"

namespace kvik::jinja {
namespace {

using StatementKind = Statement::Kind;
using StatementPtr = std::unique_ptr<const Statement>;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : s_(std::move(tokens)), expressions_(s_) {}

  // Parses statements up to a block whose name is one of `ends`. Consumes the name and stores it in
  // `end`. If `ends` is empty, parses up to the end of the template.
  Result<Body> body(std::initializer_list<std::string_view> ends, std::string* end = nullptr);

 private:
  Result<StatementPtr> block();
  Result<StatementPtr> if_();
  Result<StatementPtr> for_();
  Result<StatementPtr> set();
  Result<StatementPtr> macro();
  Result<StatementPtr> call();
  Result<StatementPtr> filter();
  Result<StatementPtr> with();
  Result<void> append_body(Statement& statement, std::initializer_list<std::string_view> ends,
                           std::string& end);
  Result<StatementPtr> with_body(Statement statement, std::string_view end);
  Result<StatementPtr> with_macro_body(Statement statement, std::string_view end);
  Result<std::vector<std::string>> targets();
  Result<std::vector<Parameter>> parameters();
  Result<void> end_of_block() { return s_.expect(Token::Kind::kBlockEnd, "%}"); }
  Statement node(StatementKind kind) const { return {.kind = kind, .line = s_.token().line}; }
  static StatementPtr finish(Statement statement) {
    return std::make_unique<const Statement>(std::move(statement));
  }

  ParserState s_;
  ExpressionParser expressions_;
  uint32_t depth_ = 0;
  uint32_t n_loops_ = 0;  // number of enclosing loops
};

Result<Body> Parser::body(std::initializer_list<std::string_view> ends, std::string* end) {
  if (depth_ > kMaxDepth) {
    return s_.wrong("expected blocks at most {} deep", kMaxDepth);
  }
  ++depth_;
  Body statements;
  while (!s_.is(Token::Kind::kEnd)) {
    Statement statement = node(StatementKind::kText);
    const Token token = s_.next();
    if (token.kind == Token::Kind::kText) {
      statement.text = token.text;
      statements.push_back(finish(std::move(statement)));
    } else if (token.kind == Token::Kind::kOutputBegin) {
      statement.kind = StatementKind::kOutput;
      TRY_ASSIGN(statement.expr, expressions_.tuple());
      TRY(s_.expect(Token::Kind::kOutputEnd, "}}"));
      statements.push_back(finish(std::move(statement)));
    } else {
      if (std::any_of(ends.begin(), ends.end(), [&](auto name) { return s_.is_name(name); })) {
        *end = s_.next().text;
        --depth_;
        return statements;
      }
      TRY_ASSIGN(StatementPtr found, block());
      statements.push_back(std::move(found));
    }
  }
  if (ends.size() > 0) return s_.wrong("expected '{}'", *ends.begin());
  --depth_;
  return statements;
}

Result<StatementPtr> Parser::block() {
  TRY_ASSIGN(const std::string name, s_.expect_name());
  if (name == "if") return if_();
  if (name == "for") return for_();
  if (name == "set") return set();
  if (name == "macro") return macro();
  if (name == "call") return call();
  if (name == "filter") return filter();
  if (name == "with") return with();
  if (name == "generation") return with_body(node(StatementKind::kGroup), "endgeneration");
  if (name == "break" || name == "continue") {
    if (n_loops_ == 0) return s_.wrong("'{}' is only allowed in a loop", name);
    Statement statement = node(name == "break" ? StatementKind::kBreak : StatementKind::kContinue);
    TRY(end_of_block());
    return finish(std::move(statement));
  }
  return s_.wrong("unknown statement '{}'", name);
}

Result<void> Parser::append_body(Statement& statement, std::initializer_list<std::string_view> ends,
                                 std::string& end) {
  TRY(end_of_block());
  TRY_ASSIGN(Body inner, body(ends, &end));
  statement.bodies.push_back(std::move(inner));
  return {};
}

// Returns the statement with the body up to the block `end`.
Result<StatementPtr> Parser::with_body(Statement statement, std::string_view end) {
  std::string found;
  TRY(append_body(statement, {end}, found));
  TRY(end_of_block());
  return finish(std::move(statement));
}

// Parses a body that is called from elsewhere, so the enclosing loops do not apply to it.
Result<StatementPtr> Parser::with_macro_body(Statement statement, std::string_view end) {
  const uint8_t names_around = expressions_.take_implicit_names();
  const uint32_t n_loops_around = std::exchange(n_loops_, 0);
  std::string found;
  TRY(append_body(statement, {end}, found));
  TRY(end_of_block());
  n_loops_ = n_loops_around;
  statement.implicit_names = expressions_.take_implicit_names();
  expressions_.add_implicit_names(names_around | statement.implicit_names);
  return finish(std::move(statement));
}

Result<StatementPtr> Parser::if_() {
  Statement statement = node(StatementKind::kIf);
  std::string end = "elif";
  while (end == "elif") {
    TRY_ASSIGN(ExprPtr condition, expressions_.tuple(ExpressionParser::Conditional::kNot));
    statement.conditions.push_back(std::move(condition));
    TRY(append_body(statement, {"elif", "else", "endif"}, end));
  }
  if (end == "else") TRY(append_body(statement, {"endif"}, end));
  TRY(end_of_block());
  return finish(std::move(statement));
}

// Parses targets such as a, (b, c) and ns.attribute. A tuple within a tuple is flattened; no known
// template depends on the difference.
Result<std::vector<std::string>> Parser::targets() {
  std::vector<std::string> names;
  const bool has_brackets = s_.skip_op("(");
  do {
    if (s_.is_op(")") || s_.is_name("in") || s_.is_op("=")) break;
    TRY_ASSIGN(std::string name, s_.expect_name());
    if (s_.skip_op(".")) {
      TRY_ASSIGN(const std::string attribute, s_.expect_name());
      name += "." + attribute;
    }
    names.push_back(std::move(name));
  } while (s_.skip_op(","));
  if (has_brackets) TRY(s_.expect_op(")"));
  if (names.empty()) return s_.wrong("expected a name");
  return names;
}

Result<StatementPtr> Parser::for_() {
  Statement statement = node(StatementKind::kFor);
  TRY_ASSIGN(statement.targets, targets());
  if (!s_.skip_name("in")) return s_.wrong("expected 'in'");
  TRY_ASSIGN(statement.expr, expressions_.tuple(ExpressionParser::Conditional::kNot));
  if (s_.skip_name("if")) {
    TRY_ASSIGN(statement.condition, expressions_.expression());
  }
  statement.is_recursive = s_.skip_name("recursive");
  std::string end;
  ++n_loops_;
  TRY(append_body(statement, {"else", "endfor"}, end));
  --n_loops_;
  if (end == "else") TRY(append_body(statement, {"endfor"}, end));
  TRY(end_of_block());
  return finish(std::move(statement));
}

Result<StatementPtr> Parser::set() {
  Statement statement = node(StatementKind::kSet);
  TRY_ASSIGN(statement.targets, targets());
  if (s_.skip_op("=")) {
    TRY_ASSIGN(statement.expr, expressions_.tuple());
    TRY(end_of_block());
    return finish(std::move(statement));
  }
  statement.kind = StatementKind::kSetBlock;
  if (s_.skip_op("|")) {
    TRY_ASSIGN(statement.expr, expressions_.filters(nullptr));
  }
  return with_body(std::move(statement), "endset");
}

Result<std::vector<Parameter>> Parser::parameters() {
  std::vector<Parameter> all;
  TRY(s_.list("(", ")", [&]() -> Result<void> {
    Parameter& parameter = all.emplace_back();
    TRY_ASSIGN(parameter.name, s_.expect_name());
    if (!s_.skip_op("=")) return {};
    TRY_ASSIGN(parameter.otherwise, expressions_.expression());
    return {};
  }));
  return all;
}

Result<StatementPtr> Parser::macro() {
  Statement statement = node(StatementKind::kMacro);
  TRY_ASSIGN(statement.name, s_.expect_name());
  TRY_ASSIGN(statement.parameters, parameters());
  return with_macro_body(std::move(statement), "endmacro");
}

Result<StatementPtr> Parser::call() {
  Statement statement = node(StatementKind::kCallBlock);
  if (s_.is_op("(")) {
    TRY_ASSIGN(statement.parameters, parameters());
  }
  TRY_ASSIGN(statement.expr, expressions_.expression());
  if (statement.expr->kind != Expr::Kind::kCall) return s_.wrong("expected a call before");
  return with_macro_body(std::move(statement), "endcall");
}

Result<StatementPtr> Parser::filter() {
  Statement statement = node(StatementKind::kFilter);
  TRY_ASSIGN(statement.expr, expressions_.filters(nullptr));
  return with_body(std::move(statement), "endfilter");
}

Result<StatementPtr> Parser::with() {
  Statement statement = node(StatementKind::kWith);
  while (s_.is(Token::Kind::kName)) {
    statement.targets.push_back(s_.next().text);
    TRY(s_.expect_op("="));
    TRY_ASSIGN(ExprPtr value, expressions_.expression());
    statement.conditions.push_back(std::move(value));
    if (!s_.skip_op(",")) break;
  }
  return with_body(std::move(statement), "endwith");
}

}  // namespace

Result<Body> parse_template(std::string_view source) {
  TRY_ASSIGN(std::vector<Token> tokens, tokenize_template(source));
  return Parser(std::move(tokens)).body({});
}

}  // namespace kvik::jinja
