#include <algorithm>
#include <array>

#include "text/hf/regex.h"

namespace kvik::hf {
namespace {

// Unicode's White_Space. PCRE2's \s also contains U+180E.
constexpr std::string_view kBlanks =
    R"(\t-\r \x{85}\xA0\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view kWord = R"(\p{L}\p{M}\p{Nd}\p{Pc})";  // PCRE2's \w lacks marks

// Names of properties that are longer than two letters and not scripts.
constexpr std::array<std::string_view, 6> kNoScripts = {"Any",       "Alpha",     "Alphabetic",
                                                        "Uppercase", "Lowercase", "White_Space"};

class Translator {
 public:
  explicit Translator(std::string_view from) : from_(from) {}

  std::string run() {
    while (at_ < from_.size()) {
      const char c = from_[at_];
      if (c == '\\' && at_ + 1 < from_.size()) {
        escape();
      } else if (c == '[') {
        open_class();
      } else {
        if (c == ']') in_class_ = false;
        to_ += c;
        ++at_;
      }
    }
    return std::move(to_);
  }

 private:
  void escape() {
    const char c = from_[at_ + 1];
    at_ += 2;
    if (c == 's') return list(kBlanks, "[");
    if (c == 'w') return list(kWord, "[");
    if (c == 'S' && !in_class_) return list(kBlanks, "[^");
    if (c == 'W' && !in_class_) return list(kWord, "[^");
    if (c == 'u' && at_ + 4 <= from_.size()) {
      to_.append("\\x{").append(from_.substr(at_, 4)).append("}");
      at_ += 4;
      return;
    }
    to_ += '\\';
    to_ += c;
    if ((c == 'p' || c == 'P') && at_ < from_.size() && from_[at_] == '{') property();
  }

  void list(std::string_view characters, std::string_view open) {
    if (!in_class_) to_ += open;
    to_ += characters;
    if (!in_class_) to_ += ']';
  }

  // Translates \p{…}. In PCRE2 the name of a script also matches the characters that it shares with
  // other scripts.
  void property() {
    const size_t close = from_.find('}', at_);
    if (close == from_.npos) return;
    std::string_view name = from_.substr(at_ + 1, close - at_ - 1);
    const bool is_negated = name.starts_with('^');
    if (is_negated) name.remove_prefix(1);
    const bool is_script =
        name.size() > 2 && name.find_first_of("=:&") == name.npos &&
        std::find(kNoScripts.begin(), kNoScripts.end(), name) == kNoScripts.end();
    to_.append("{").append(is_negated ? "^" : "").append(is_script ? "sc:" : "").append(name) +=
        '}';
    at_ = close + 1;
  }

  // Translates a class. PCRE2 lacks intersections: [these&&[^those]] becomes (?![those])[these].
  void open_class() {
    if (in_class_) {  // a POSIX class such as [:alpha:]
      to_ += from_[at_++];
      return;
    }
    const size_t both = from_.find("&&[^", at_);
    const size_t close = end_of_class(at_);
    if (both != from_.npos && both < close) {
      const size_t inner_close = end_of_class(both + 2);
      to_.append("(?:(?!").append(
          Translator("[" + std::string(from_.substr(both + 4, inner_close - both - 3))).run());
      to_.append(")").append(Translator(std::string(from_.substr(at_, both - at_)) + "]").run()) +=
          ')';
      at_ = std::min(close + 1, from_.size());
      return;
    }
    in_class_ = true;
    to_ += from_[at_++];
    if (at_ < from_.size() && from_[at_] == '^') to_ += from_[at_++];
  }

  // Returns the position of the bracket that closes the one at `open`.
  size_t end_of_class(size_t open) const {
    size_t depth = 0;
    for (size_t at = open; at < from_.size(); ++at) {
      if (from_[at] == '\\') {
        ++at;
      } else if (from_[at] == '[') {
        ++depth;
      } else if (from_[at] == ']' && --depth == 0) {
        return at;
      }
    }
    return from_.size();
  }

  std::string_view from_;
  std::string to_;
  size_t at_ = 0;
  bool in_class_ = false;
};

}  // namespace

std::string to_pcre2(std::string_view oniguruma) { return Translator(oniguruma).run(); }

}  // namespace kvik::hf
