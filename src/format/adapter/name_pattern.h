#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvik {

// A key of PEFT's rank_pattern or alpha_pattern: the name of a module, or a regular expression of
// Python's `re`. It applies to modules for which the whole name, or the whole name after a dot,
// matches (huggingface/peft, get_pattern_key). Immutable; one thread at a time.
class NamePattern {
 public:
  // Errors: kCorrupt with the reason for an invalid pattern, without the key's location.
  static Result<NamePattern> compile(std::string_view text);

  // Errors: kUnsupported if matching takes too many steps.
  Result<bool> matches(std::string_view name) const;

 private:
  struct Code;  // of PCRE2
  NamePattern(std::string text, std::shared_ptr<const Code> code)
      : text_(std::move(text)), code_(std::move(code)) {}

  std::string text_;
  std::shared_ptr<const Code> code_;  // null for plain names; shared by copies
};

}  // namespace kvik
