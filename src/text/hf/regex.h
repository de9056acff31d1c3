#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/utf8.h"
#include "text/hf/tokenizer_object.h"

namespace kvik::hf {

// A regular expression of a tokenizer.json, whose dialect is Oniguruma's, run by PCRE2 with limits:
// one that would take for ever on some text matches no more of it. Immutable: any thread.
class Regex {
 public:
  // Plain text is quoted. Error: kCorrupt, with what PCRE2 says of it.
  static Result<Regex> compile(const Pattern& pattern);

  struct Match {
    size_t begin;
    size_t end;
  };

  // The first match at or behind `from`; it may be empty. Bytes that are not UTF-8 match nothing.
  // Where a limit ends the search there is none, and `gave_up` becomes true.
  std::optional<Match> find(std::string_view text, size_t from, bool& gave_up) const;

  // Calls take(match) with all matches in `text`, one behind the other, unless a search gave up.
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
  struct Code;  // of PCRE2, whose header stays out of here
  explicit Regex(std::shared_ptr<const Code> code) : code_(std::move(code)) {}

  std::shared_ptr<const Code> code_;  // shared by the copies of functions that hold this
};

// `text` with `content` for every match.
std::string replace_all(const Regex& regex, std::string_view text, std::string_view content);

// The expression in PCRE2's dialect: where the two mean different things by the same signs.
std::string to_pcre2(std::string_view oniguruma);

}  // namespace kvik::hf
