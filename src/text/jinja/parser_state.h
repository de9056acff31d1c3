#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace kvik::jinja {

// A place in a template's tokens.
class ParserState {
 public:
  explicit ParserState(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& token() const { return tokens_[at_]; }
  const Token& token_after() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token next() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_.back(); }

  bool is(Token::Kind kind) const { return token().kind == kind; }
  bool is_op(std::string_view op) const {
    return token().kind == Token::Kind::kOperator && token().text == op;
  }
  bool is_name(std::string_view name) const {
    return token().kind == Token::Kind::kName && token().text == name;
  }
  bool skip_op(std::string_view op) {
    const bool found = is_op(op);
    if (found) ++at_;
    return found;
  }
  bool skip_name(std::string_view name) {
    const bool found = is_name(name);
    if (found) ++at_;
    return found;
  }

  Result<void> expect_op(std::string_view op) {
    if (skip_op(op)) return {};
    return wrong(fmt::format("expected '{}'", op));
  }
  Result<std::string> expect_name() {
    if (!is(Token::Kind::kName)) return wrong("expected a name");
    return next().text;
  }

  std::unexpected<Error> wrong(std::string_view what) const {
    return fail(ErrorCode::kCorrupt, fmt::format("chat template, line {}: {}, but there is {}",
                                                 token().line, what, shown()));
  }

 private:
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
