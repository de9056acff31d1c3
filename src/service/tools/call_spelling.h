#pragma once

#include <cstdint>
#include <string_view>

#include "service/tools/tool_format.h"

namespace kvik {

// How a model of a format spells the calls that it is made to write: one way of those that its
// reader takes, the one that its template writes. In this order:
//
//   begin  open NAME behind_name  arguments  close  between  open …  end
struct CallSpelling {
  enum class Arguments : uint8_t {
    kJson,    // one object
    kTexts,   // each parameter: key KEY behind_key VALUE behind_value, strings as they are
    kPython,  // KEY=VALUE, …, with JSON's values, which Python's readers take
    kGemma,   // KEY:VALUE,…, strings between marks of their own; no lists or objects
  };

  std::string_view format;         // of tool_formats()
  std::string_view telltale = {};  // of several spellings of a format: the template has it
  std::string_view begin = {}, open = {}, behind_name = {}, close = {}, between = {}, end = {};
  Arguments arguments = Arguments::kJson;
  std::string_view key = {}, behind_key = {}, behind_value = {};
  std::string_view behind_key_of_json = {};  // where a value is no string; empty: as for strings
  bool quotes_name = false;                  // as a JSON string
  bool numbers_calls = false;                // a number stands between NAME and behind_name
};

// Null where there is none for that format.
const CallSpelling* find_spelling(const ToolFormat& format, std::string_view chat_template);

}  // namespace kvik
