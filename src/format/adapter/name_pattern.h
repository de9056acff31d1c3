#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvik {

// A key of PEFT's rank_pattern or alpha_pattern: the name of a module, or a regular expression of
// Python's `re`. It applies to modules for which the whole name, or the whole name after a dot,
// matches (huggingface/peft, get_pattern_key). Immutable. A pattern and its copies share the memory
// that PCRE2 matches with, so only one thread at a time may use them.
class NamePattern {
 public:
  // Compiles a key. Errors: kCorrupt for an invalid pattern. The message has the reason but not the
  // name of the file or key.
  static Result<NamePattern> compile(std::string_view text);

  // Returns whether the pattern applies to a module. Errors: kUnsupported if matching takes too
  // many steps.
  Result<bool> matches(std::string_view name) const;

 private:
  struct Code;  // compiled PCRE2 expression and its match data
  NamePattern(std::string text, std::shared_ptr<const Code> code)
      : text_(std::move(text)), code_(std::move(code)) {}

  std::string text_;
  std::shared_ptr<const Code> code_;  // null for plain names; shared by copies
};

}  // namespace kvik
