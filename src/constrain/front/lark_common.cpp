#include "constrain/front/lark_common.h"

#include <utility>

namespace kvik::constrain {

std::optional<std::string_view> lark_common_terminal(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kTerminals[] = {
      {"DIGIT", R"([0-9])"},
      {"HEXDIGIT", R"([a-fA-F0-9])"},
      {"INT", R"([0-9]+)"},
      {"SIGNED_INT", R"([+-]?[0-9]+)"},
      {"DECIMAL", R"([0-9]+\.[0-9]*|\.[0-9]+)"},
      {"FLOAT", R"([0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)"},
      {"SIGNED_FLOAT",
       R"([+-]?([0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?))"},
      {"NUMBER", R"([0-9]+([eE][+-]?[0-9]+)?|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)"},
      {"SIGNED_NUMBER",
       R"([+-]?([0-9]+([eE][+-]?[0-9]+)?|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?))"},
      {"ESCAPED_STRING", R"("([^"\\\n]|\\[^\n])*")"},
      {"LCASE_LETTER", R"([a-z])"},
      {"UCASE_LETTER", R"([A-Z])"},
      {"LETTER", R"([a-zA-Z])"},
      {"WORD", R"([a-zA-Z]+)"},
      {"CNAME", R"([_a-zA-Z][_a-zA-Z0-9]*)"},
      {"WS_INLINE", R"([ \t]+)"},
      {"WS", R"([ \t\f\r\n]+)"},
      {"CR", R"(\r)"},
      {"LF", R"(\n)"},
      {"NEWLINE", R"((\r?\n)+)"},
      {"SH_COMMENT", R"(#[^\n]*)"},
      {"CPP_COMMENT", R"(//[^\n]*)"},
      {"C_COMMENT", R"(/\*([^*]|\*+[^*/])*\*+/)"},
      {"SQL_COMMENT", R"(--[^\n]*)"},
  };
  for (const auto& [known, regex] : kTerminals) {
    if (known == name) return regex;
  }
  return std::nullopt;
}

}  // namespace kvik::constrain
