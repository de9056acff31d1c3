#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvik::jinja {

struct Token {
  enum class Kind : uint8_t {
    kText,         // text between tags, after whitespace control
    kOutputBegin,  // {{
    kOutputEnd,    // }}
    kBlockBegin,   // {%
    kBlockEnd,     // %}
    kName,
    kInteger,
    kFloat,
    kString,  // a string literal with its escapes resolved
    kOperator,
    kEnd,
  };
  Kind kind;
  std::string text;
  uint32_t line;

  bool is(Kind its_kind, std::string_view its_text) const {
    return kind == its_kind && text == its_text;
  }
};

// Returns the tokens of a template with Hugging Face's settings: trim_blocks and lstrip_blocks are
// on, and one final newline is removed. Error: kCorrupt with the line number.
Result<std::vector<Token>> tokenize_template(std::string_view source);

// Returns the content of a string literal with Python's escapes resolved; std::nullopt if \x, \u or
// \U has too few digits.
std::optional<std::string> unescape(std::string_view literal);

}  // namespace kvik::jinja
