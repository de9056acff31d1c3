#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "template/jinja/ast.h"
#include "template/jinja/lexer.h"

namespace kvik::jinja {

// A position in the tokens of a template.
class ParserState {
 public:
  explicit ParserState(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& token() const { return tokens_[at_]; }
  Token next() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_.back(); }

  bool is(Token::Kind kind) const { return token().kind == kind; }
  bool is_op(std::string_view op) const { return token().is(Token::Kind::kOperator, op); }
  bool is_name(std::string_view name) const { return token().is(Token::Kind::kName, name); }
  // Return whether the token after the next one is this operator or name.
  bool op_follows(std::string_view op) const { return after().is(Token::Kind::kOperator, op); }
  bool name_follows(std::string_view name) const { return after().is(Token::Kind::kName, name); }
  bool skip_op(std::string_view op) { return skip_if(is_op(op)); }
  bool skip_name(std::string_view name) { return skip_if(is_name(name)); }

  Result<void> expect_op(std::string_view op) {
    if (skip_op(op)) return {};
    return wrong("expected '{}'", op);
  }
  Result<void> expect(Token::Kind kind, std::string_view sign) {
    if (!is(kind)) return wrong("expected '{}'", sign);
    next();
    return {};
  }
  // Reads a bracketed list whose items item() reads, separated by commas. A trailing comma is
  // allowed.
  template <class Item>
  Result<void> list(std::string_view open, std::string_view close, const Item& item) {
    TRY(expect_op(open));
    while (!is_op(close)) {
      TRY(item());
      if (!skip_op(",")) break;
    }
    return expect_op(close);
  }
  Result<std::string> expect_name() {
    if (!is(Token::Kind::kName)) return wrong("expected a name");
    return next().text;
  }

  template <class... Values>
  std::unexpected<Error> wrong(fmt::format_string<const Values&...> what,
                               const Values&... values) const {
    return fail(ErrorCode::kCorrupt,
                fmt::format("chat template, line {}: {}, but there is {}", token().line,
                            fmt::vformat(what, fmt::make_format_args(values...)), shown()));
  }

 private:
  const Token& after() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  bool skip_if(bool is_there) {
    if (is_there) ++at_;
    return is_there;
  }

  std::string shown() const {
    switch (token().kind) {
      case Token::Kind::kEnd:
        return "the template's end";
      case Token::Kind::kBlockEnd:
        return "'%}'";
      case Token::Kind::kOutputEnd:
        return "'}}'";
      default:
        return fmt::format("'{}'", token().text);
    }
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace kvik::jinja
