#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "service/tools/call_syntax.h"
#include "service/tools/value_reader.h"

namespace kvik {

// One step of reading calls. The next one follows it, or `to` where that is not 0.
struct CallStep {
  enum class Kind : uint8_t {
    kMark,       // exactly this
    kBlanks,     // any number of them
    kOneOf,      // one of several marks, each with the step that follows it
    kName,       // the function's name, up to one of several marks
    kId,         // the call's, in the same way
    kKey,        // a parameter's name, in the same way
    kText,       // a parameter's value, up to the mark; `style` says what it is
    kArguments,  // all of them as one object
    kJsonCall,   // name and arguments as one JSON object
    kCall,       // the call is whole
    kEnd,        // no more calls
  };
  // The JSON type of a text: as the tool's schema says, a string, or JSON already.
  enum class Style : uint8_t { kBySchema, kString, kJson };
  struct Way {
    std::string_view mark;
    uint8_t to;
    friend bool operator==(const Way&, const Way&) = default;
  };
  static constexpr uint8_t kNowhere = 255;

  Kind kind;
  std::string_view mark = {};
  std::array<Way, 3> ways = {};
  uint8_t otherwise = kNowhere;  // of kOneOf: where the same bytes are read again
  uint8_t to = 0;
  Style style = Style::kBySchema;
  bool trims_lines = false;  // of kText: a line's end at either end is the format's
  bool is_numbered = false;  // of kName: "functions.NAME:0"
  ValueReader::Begin begin = ValueReader::Begin::kHere;
  const ValueDialect* dialect = &kJson;
  bool is_sure = true;  // of kJsonCall: what else may stand in such an object is no matter; else
                        // only name and arguments may, and the tool must be known

  friend bool operator==(const CallStep&, const CallStep&) = default;
};

// The steps that read the calls of a format.
struct CallSteps {
  // A mark that opens calls, and the step after it. `begins_answer`: it counts nowhere else.
  struct Begin {
    std::string_view mark;
    uint8_t step;
    bool begins_answer = false;
  };
  std::vector<Begin> begins;
  std::vector<CallStep> steps;
};

// Returns the steps that read calls in any of these syntaxes. There are one or two of them, with
// the same opening mark.
CallSteps steps_of(const std::vector<CallSyntax>& syntaxes);

// Returns the steps after a header that names the function: they read the arguments of one call.
CallSteps steps_after_header();

}  // namespace kvik
