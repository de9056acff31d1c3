#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvik {

// A key of PEFT's rank_pattern or alpha_pattern: the name of a module, or an expression of Python's
// `re`. It means the modules whose name, or what stands there behind a dot, is all matched
// (huggingface/peft, get_pattern_key). Immutable; one thread at a time.
class NamePattern {
 public:
  // Error: kCorrupt for what cannot be read, with the reason; without the key's place.
  static Result<NamePattern> compile(std::string_view text);

  // Error: kUnsupported where that takes more steps than names are worth.
  Result<bool> matches(std::string_view name) const;

 private:
  struct Code;  // of PCRE2
  NamePattern(std::string text, std::shared_ptr<const Code> code)
      : text_(std::move(text)), code_(std::move(code)) {}

  std::string text_;
  std::shared_ptr<const Code> code_;  // null for plain names; shared by copies
};

}  // namespace kvik
