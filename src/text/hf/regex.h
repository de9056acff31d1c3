#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/utf8.h"
#include "text/hf/tokenizer_object.h"

namespace kvik::hf {

// A regular expression of a tokenizer.json in Oniguruma's dialect, run by PCRE2 with limits. A
// search that reaches a limit finds nothing and sets `gave_up`. Immutable; thread-safe.
class Regex {
 public:
  // Compiles a pattern. Plain text is matched literally. Error: kCorrupt with PCRE2's message.
  static Result<Regex> compile(const Pattern& pattern);

  struct Match {
    size_t begin;
    size_t end;
  };

  // Returns the first match at or after `from`, which may be empty. Invalid UTF-8 never matches. If
  // a limit is reached, returns std::nullopt and sets `gave_up`.
  std::optional<Match> find(std::string_view text, size_t from, bool& gave_up) const;

  // Calls take(match) for all matches in `text` in order, until a search reaches a limit.
  template <class Take>
  void each_match(std::string_view text, bool& gave_up, const Take& take) const {
    for (size_t from = 0; from <= text.size() && !gave_up;) {
      const auto match = find(text, from, gave_up);
      if (!match) return;
      take(*match);
      from = match->end;
      if (match->begin < match->end) continue;
      from += from < text.size() ? next_utf8(text, from).n_bytes : 1;
    }
  }

 private:
  struct Code;  // holds PCRE2's type (its header is not included here)
  explicit Regex(std::shared_ptr<const Code> code) : code_(std::move(code)) {}

  std::shared_ptr<const Code> code_;  // shared by copies of the std::functions that hold this
};

// Replaces every match in `text` by `content`.
std::string replace_all(const Regex& regex, std::string_view text, std::string_view content);

// Translates an expression to PCRE2's dialect where the two dialects differ.
std::string to_pcre2(std::string_view oniguruma);

}  // namespace kvik::hf
