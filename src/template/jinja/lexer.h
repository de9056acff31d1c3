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
    kText,         // between tags, whitespace control applied
    kOutputBegin,  // {{
    kOutputEnd,    // }}
    kBlockBegin,   // {%
    kBlockEnd,     // %}
    kName,
    kInteger,
    kFloat,
    kString,  // escapes resolved
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

// A template's tokens, with Hugging Face's settings: trim_blocks and lstrip_blocks are on, one
// newline at the end is dropped. Error: kCorrupt, naming the line.
Result<std::vector<Token>> tokenize_template(std::string_view source);

// What stands between the quotes of a string literal, its escapes resolved as Python does; nothing
// where \x, \u or \U lacks its digits.
std::optional<std::string> unescape(std::string_view literal);

}  // namespace kvik::jinja
