// Writes C++ files without comments and with normalized whitespace to one file, so that its hash
// changes with the code only. Used by cmake/numerics.cmake at build time.
//
// Usage: code_tokens OUTPUT FOLDER FILE...; the FILEs are relative to FOLDER.
#include <algorithm>
#include <cctype>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
bool is_operator(char c) { return std::string_view("+-*/%^&|=<>!:.#?~").contains(c); }

// Returns whether a blank between the characters separates two tokens.
bool separates(char before, char after) {
  const auto is_quote = [](char c) { return c == '"' || c == '\''; };
  return (is_word(before) && (is_word(after) || is_quote(after) || after == '.')) ||
         (is_word(after) && (is_quote(before) || before == '.')) ||
         (is_operator(before) && is_operator(after));
}

class Normalizer {
 public:
  explicit Normalizer(std::string code) : code_(std::move(code)) {}

  std::string run() {
    while (at_ < code_.size()) step();
    return std::move(out_);
  }

 private:
  bool is_next(std::string_view text) const {
    return std::string_view(code_).substr(at_).starts_with(text);
  }

  void step() {
    const char c = code_[at_];
    if (is_next("\\\n")) {
      at_ += 2;
      has_blank_ = true;
    } else if (c == '\n') {
      ++at_;
      end_line();
    } else if (is_blank(c)) {
      ++at_;
      has_blank_ = true;
    } else if (is_next("//")) {
      while (at_ < code_.size() && code_[at_] != '\n') at_ += is_next("\\\n") ? 2 : 1;
      has_blank_ = true;
    } else if (is_next("/*")) {
      at_ = std::min(code_.find("*/", at_ + 2), code_.size() - 2) + 2;
      has_blank_ = true;
    } else if (c == '"' || c == '\'') {
      put(end_of_literal(c));
    } else if (is_word(c)) {
      put_word();
    } else {
      if (c == '#' && is_line_empty_) is_directive_ = true;
      put(at_ + 1);
    }
  }

  void end_line() {
    if (is_directive_) out_ += '\n';
    has_blank_ = !is_directive_;
    is_directive_ = false;
    is_line_empty_ = true;
  }

  // Writes the code up to `end`. In a directive each blank counts: it may follow the name of a
  // macro. A directive begins on a line of its own.
  void put(size_t end) {
    const bool begins_line = is_directive_ && is_line_empty_;
    if (begins_line) {
      out_ += '\n';
    } else if (has_blank_ && !out_.empty() && out_.back() != '#' &&
               (is_directive_ || separates(out_.back(), code_[at_]))) {
      out_ += ' ';
    }
    out_.append(code_, at_, end - at_);
    at_ = end;
    has_blank_ = is_line_empty_ = false;
  }

  // Writes a name or a number, which may have quotes between its digits, or a raw string.
  void put_word() {
    const bool is_number = std::isdigit(static_cast<unsigned char>(code_[at_])) != 0;
    size_t end = at_;
    while (end < code_.size() &&
           (is_word(code_[end]) || (is_number && code_[end] == '\'' && is_word(code_[end + 1])))) {
      ++end;
    }
    const bool is_raw = !is_number && code_[end - 1] == 'R' && end - at_ <= 3 &&
                        end < code_.size() && code_[end] == '"';
    put(is_raw ? end_of_raw(end) : end);
  }

  size_t end_of_literal(char quote) const {
    size_t end = at_ + 1;
    while (end < code_.size() && code_[end] != quote) end += code_[end] == '\\' ? 2 : 1;
    return std::min(end + 1, code_.size());
  }

  size_t end_of_raw(size_t quote) const {
    const size_t open = std::min(code_.find('(', quote), code_.size() - 1);
    const std::string close = ')' + code_.substr(quote + 1, open - quote - 1) + '"';
    const size_t end = code_.find(close, open);
    return end == std::string::npos ? code_.size() : end + close.size();
  }

  const std::string code_;
  size_t at_ = 0;
  std::string out_;
  bool has_blank_ = false;
  bool is_line_empty_ = true;  // no token so far on this line
  bool is_directive_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "code_tokens: expected OUTPUT FOLDER FILE...\n";
    return 2;
  }
  std::ofstream out(argv[1], std::ios::binary);
  for (int i = 3; i < argc; ++i) {
    std::ifstream file(std::string(argv[2]) + "/" + argv[i], std::ios::binary);
    if (!file) {
      std::cerr << "code_tokens: cannot read " << argv[i] << "\n";
      return 1;
    }
    std::string code((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    out << "\n" << argv[i] << "\n" << Normalizer(std::move(code)).run();
  }
  out.close();
  return out ? 0 : 1;
}
