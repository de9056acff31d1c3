#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "service/tools/value_reader.h"

namespace kvik {

// One step of reading calls. Behind it comes the next one, or `to` where that is not 0.
struct CallStep {
  enum class Kind : uint8_t {
    kMark,       // exactly this
    kBlanks,     // any number of them
    kOneOf,      // one of several marks, and the step behind it
    kName,       // the function's name, up to one of several marks
    kId,         // the call's, in the same way
    kKey,        // a parameter's name, in the same way
    kText,       // a parameter's value, up to the mark; `style` says what it is
    kArguments,  // all of them as one object
    kJsonCall,   // name and arguments as one JSON object
    kCall,       // the call is whole
    kEnd,        // no more calls
  };
  // What a text is in JSON: what the tool's schema says, a string, or JSON already.
  enum class Style : uint8_t { kBySchema, kString, kJson };
  struct Way {
    std::string_view mark;
    uint8_t to;
  };
  static constexpr uint8_t kNowhere = 255;

  Kind kind;
  std::string_view mark = {};
  std::array<Way, 3> ways = {};
  uint8_t otherwise = kNowhere;  // of kOneOf: where the same bytes are read again
  uint8_t to = 0;
  Style style = Style::kBySchema;
  bool trims_lines = false;  // of kText: a line's end at either end is the format's
  ValueReader::Begin begin = ValueReader::Begin::kHere;
  const ValueDialect* dialect = &kJson;
  bool is_sure = true;  // of kJsonCall: what else may stand in such an object is no matter; else
                        // only name and arguments may, and the tool must be known
};

// How a family of models writes calls of tools into its answers.
struct ToolFormat {
  // What opens calls, and the step behind it. One that begins an answer counts nowhere else.
  struct Begin {
    std::string_view mark;
    uint8_t step;
    bool begins_answer = false;
  };
  // How calls are written where a template leaves that out: between the marks, each as a JSON
  // object of name and arguments, as Python would call it, or as a numbered name, a mark and the
  // arguments.
  struct Writing {
    enum class Style : uint8_t { kNone, kJson, kPython, kNumbered } style = Style::kNone;
    std::string_view begin = {}, between = {}, end = {};
    std::string_view behind_name = {};  // of kNumbered
  };

  std::string_view name;                      // for --tool-format
  std::array<std::string_view, 2> telltales;  // a template with all of these writes it
  std::array<Begin, 2> begins = {};
  std::span<const CallStep> steps = {};
  Writing writing = {};
  std::string_view end_token = {};  // what a model says behind its last call, to be answered
  bool numbers_names = false;       // "functions.NAME:0"
  bool has_nine_letter_ids = false;
  bool has_one_call = false;  // a message of its template holds no second call
  bool has_channels = false;  // harmony: an answer is several messages, each for a channel
};

// The first whose telltales are there is a template's own.
std::span<const ToolFormat> tool_formats();

// Null where there is none of that name, or where the template writes none that is known.
const ToolFormat* find_tool_format(std::string_view name);
const ToolFormat* find_format_of_template(std::string_view chat_template);

// What a template without tools is given in its system prompt.
const ToolFormat& hermes_format();

// All the marks of a format: what of them is a special token must reach the reader.
std::vector<std::string_view> marks_of(const ToolFormat& format);

}  // namespace kvik
