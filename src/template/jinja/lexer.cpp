#include "template/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kvik::jinja {
namespace {

using TokenKind = Token::Kind;

constexpr std::string_view kBlanks = " \t\n\r\f\v";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool begins_name(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (static_cast<unsigned char>(c) & 0x80);
}
bool is_sign(char c) { return c == '-' || c == '+'; }
bool continues_name(char c) { return begins_name(c) || is_digit(c); }

std::string with_plain_newlines(std::string_view source) {
  std::string out;
  for (size_t at = 0; at < source.size(); ++at) {
    if (source[at] != '\r') {
      out += source[at];
    } else {
      out += '\n';
      if (at + 1 < source.size() && source[at + 1] == '\n') ++at;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}
  Result<std::vector<Token>> run();

 private:
  struct Tag {
    size_t at;
    std::string_view open;  // "{{", "{%" or "{#"
  };
  std::optional<Tag> find_tag() const;
  void push_text(const Tag& tag);
  Result<void> comment();
  Result<bool> raw();
  Result<void> tag(std::string_view close);
  bool at_close(std::string_view close);
  Result<void> token_in_tag();
  Result<void> string();
  void number();
  Result<void> operator_();
  void end_block(char sign);

  // Returns NUL beyond the end.
  char char_at(size_t at) const { return at < source_.size() ? source_[at] : '\0'; }
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  uint32_t line() {
    for (; counted_ < at_; ++counted_) line_ += source_[counted_] == '\n' ? 1 : 0;
    return line_;
  }
  void push(TokenKind kind, std::string text) {
    tokens_.push_back({kind, std::move(text), line()});
  }
  template <class... Values>
  std::unexpected<Error> wrong(fmt::format_string<const Values&...> what, const Values&... values) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("chat template, line {}: {}", line(),
                            fmt::vformat(what, fmt::make_format_args(values...))));
  }

  const std::string source_;
  size_t at_ = 0;
  size_t counted_ = 0;
  uint32_t line_ = 1;
  bool strips_left_ = false;  // whether the previous tag ended in '-'
  bool begins_line_ = true;   // whether the position is at the beginning of a line
  std::string brackets_;      // open brackets of the current tag
  std::vector<Token> tokens_;
};

std::optional<Lexer::Tag> Lexer::find_tag() const {
  for (size_t at = source_.find('{', at_); at != source_.npos; at = source_.find('{', at + 1)) {
    const std::string_view open = std::string_view(source_).substr(at, 2);
    if (open == "{{" || open == "{%" || open == "{#") return Tag{at, open};
  }
  return std::nullopt;
}

// Adds the text before a tag. Drops its trailing whitespace if the tag has '-', and the whitespace
// at the beginning of the tag's line if the tag is a block or comment (lstrip_blocks).
void Lexer::push_text(const Tag& tag) {
  std::string_view text = std::string_view(source_).substr(at_, tag.at - at_);
  const bool begins_line = std::exchange(begins_line_, false);
  if (std::exchange(strips_left_, false)) {
    text.remove_prefix(std::min(text.size(), text.find_first_not_of(kBlanks)));
  }
  const char sign = tag.at + 2 < source_.size() ? source_[tag.at + 2] : ' ';
  if (sign == '-') {
    text = text.substr(0, text.find_last_not_of(kBlanks) + 1);
  } else if (sign != '+' && tag.open != "{{") {
    const size_t line_begin = text.rfind('\n') + 1;  // 0 if there is none: npos + 1
    const bool is_whole_line = line_begin > 0 || begins_line;
    if (is_whole_line && text.find_first_not_of(kBlanks, line_begin) == text.npos) {
      text = text.substr(0, line_begin);
    }
  }
  if (!text.empty()) push(TokenKind::kText, std::string(text));
}

// Implements trim_blocks: skips the newline directly after a block unless the block ends in '-' or
// '+'.
void Lexer::end_block(char sign) {
  strips_left_ = sign == '-';
  if (sign == '-' || sign == '+' || char_at(at_) != '\n') return;
  ++at_;
  begins_line_ = true;
}

Result<void> Lexer::comment() {
  const size_t end = source_.find("#}", at_ + 2);
  if (end == source_.npos) return wrong("a comment has no end");
  at_ = end + 2;
  end_block(source_[end - 1]);
  return {};
}

// Reads {% raw %}…{% endraw %} if one begins here.
Result<bool> Lexer::raw() {
  const auto word_tag = [&](size_t at, std::string_view word) -> std::optional<size_t> {
    at += 2;
    if (is_sign(char_at(at))) ++at;
    at = std::min(source_.find_first_not_of(kBlanks, at), source_.size());
    if (std::string_view(source_).substr(at, word.size()) != word) return std::nullopt;
    at = std::min(source_.find_first_not_of(kBlanks, at + word.size()), source_.size());
    if (is_sign(char_at(at))) ++at;
    if (std::string_view(source_).substr(at, 2) != "%}") return std::nullopt;
    return at + 2;
  };
  const auto begin = word_tag(at_, "raw");
  // Jinja does not treat "raw +%}" as the beginning of a raw block.
  if (!begin || source_[*begin - 3] == '+') return false;
  at_ = *begin;
  end_block(source_[at_ - 3]);
  for (size_t at = source_.find("{%", at_); at != source_.npos; at = source_.find("{%", at + 2)) {
    const auto end = word_tag(at, "endraw");
    if (!end) continue;
    push_text({at, std::string_view(source_).substr(at, 2)});
    at_ = *end;
    // '+' has no effect at the end of a raw block.
    end_block(source_[at_ - 3] == '+' ? ' ' : source_[at_ - 3]);
    return true;
  }
  return wrong("a raw block has no end");
}

bool Lexer::at_close(std::string_view close) {
  const bool is_output = close == "}}";
  const bool has_sign = char_at(at_) == '-' || (char_at(at_) == '+' && !is_output);
  const char sign = has_sign && rest().substr(1, 2) == close ? char_at(at_) : ' ';
  if (!brackets_.empty() || (sign == ' ' && !rest().starts_with(close))) return false;
  push(is_output ? TokenKind::kOutputEnd : TokenKind::kBlockEnd, "");
  at_ += sign == ' ' ? 2 : 3;
  if (is_output) {
    strips_left_ = sign == '-';
  } else {
    end_block(sign);
  }
  return true;
}

Result<void> Lexer::tag(std::string_view close) {
  push(close == "}}" ? TokenKind::kOutputBegin : TokenKind::kBlockBegin, "");
  at_ += 2;
  if (is_sign(char_at(at_))) ++at_;
  brackets_.clear();
  while (true) {
    at_ = std::min(source_.find_first_not_of(kBlanks, at_), source_.size());
    if (at_ == source_.size()) return wrong("a tag has no end, expected '{}'", close);
    if (at_close(close)) return {};
    TRY(token_in_tag());
  }
}

Result<void> Lexer::token_in_tag() {
  const char c = source_[at_];
  if (begins_name(c)) {
    const size_t begin = at_;
    while (continues_name(char_at(at_))) ++at_;
    push(TokenKind::kName, source_.substr(begin, at_ - begin));
    return {};
  }
  if (is_digit(c)) {
    number();
    return {};
  }
  if (c == '"' || c == '\'') return string();
  return operator_();
}

void Lexer::number() {
  const size_t begin = at_;
  const auto digits = [&] {
    while (is_digit(char_at(at_)) || char_at(at_) == '_') ++at_;
  };
  digits();
  const size_t whole_end = at_;
  if (char_at(at_) == '.' && is_digit(char_at(at_ + 1))) {
    ++at_;
    digits();
  }
  if (char_at(at_) == 'e' || char_at(at_) == 'E') {
    const size_t n_before = is_sign(char_at(at_ + 1)) ? 2 : 1;
    if (is_digit(char_at(at_ + n_before))) {
      at_ += n_before;
      digits();
    }
  }
  std::string text = source_.substr(begin, at_ - begin);
  std::erase(text, '_');
  push(at_ > whole_end ? TokenKind::kFloat : TokenKind::kInteger, std::move(text));
}

Result<void> Lexer::string() {
  const char quote = source_[at_];
  size_t end = at_ + 1;
  while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
  if (end >= source_.size()) return wrong("a string has no end");
  auto text = unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1));
  if (!text) return wrong("a string has an invalid escape");
  push(TokenKind::kString, std::move(*text));
  at_ = end + 1;
  return {};
}

Result<void> Lexer::operator_() {
  constexpr auto kOperators = std::to_array<std::string_view>(
      {"**", "//", "==", "!=", "<=", ">=", "+", "-", "/", "*", "%", "~", "[",
       "]",  "(",  ")",  "{",  "}",  "<",  ">", "=", ".", ":", "|", ",", ";"});
  for (const std::string_view op : kOperators) {
    if (!rest().starts_with(op)) continue;
    if (op == "(" || op == "[" || op == "{") brackets_ += op;
    if (op == ")" || op == "]" || op == "}") {
      const char open = op == ")" ? '(' : op == "]" ? '[' : '{';
      if (brackets_.empty() || brackets_.back() != open) {
        return wrong("'{}' closes nothing", op);
      }
      brackets_.pop_back();
    }
    push(TokenKind::kOperator, std::string(op));
    at_ += op.size();
    return {};
  }
  return wrong("unexpected character '{}'", source_[at_]);
}

Result<std::vector<Token>> Lexer::run() {
  while (const std::optional<Tag> found = find_tag()) {
    push_text(*found);
    at_ = found->at;
    if (found->open == "{#") {
      TRY(comment());
    } else if (found->open == "{{") {
      TRY(tag("}}"));
    } else {
      TRY_ASSIGN(const bool was_raw, raw());
      if (!was_raw) TRY(tag("%}"));
    }
  }
  push_text({source_.size(), "{{"});
  at_ = source_.size();
  push(TokenKind::kEnd, "");
  return std::move(tokens_);
}

}  // namespace

Result<std::vector<Token>> tokenize_template(std::string_view source) {
  return Lexer(with_plain_newlines(source)).run();
}

}  // namespace kvik::jinja
