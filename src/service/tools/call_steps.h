#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "service/tools/call_syntax.h"
#include "service/tools/value_reader.h"

namespace kvik {

// One step of reading calls. The next step is `to` if it is not 0, otherwise the following one.
struct CallStep {
  enum class Kind : uint8_t {
    kMark,       // exactly `mark`
    kBlanks,     // any number of blanks
    kOneOf,      // one of several marks, each with its next step
    kName,       // the function's name, up to one of several marks
    kId,         // the call's id, in the same way
    kKey,        // a parameter's name, in the same way
    kText,       // a parameter's value, up to the mark; `style` determines its type
    kArguments,  // all arguments as one object
    kElements,   // all arguments as elements, and `mark`, the tag after them
    kJsonCall,   // name and arguments as one JSON object
    kCall,       // the call is complete
    kEnd,        // no more calls
  };
  // The JSON type of a text value: determined by the tool's schema, always a string, or already
  // JSON.
  enum class Style : uint8_t { kBySchema, kString, kJson };
  struct Way {
    std::string_view mark;
    uint8_t to;
    friend bool operator==(const Way&, const Way&) = default;
  };
  static constexpr uint8_t kNoStep = 255;

  Kind kind;
  std::string_view mark = {};
  // for kText in quotes, of which `mark` is the closing one: the opening quote. If other text
  // follows `mark`, ways[0] ends the value.
  std::string_view quote = {};
  std::array<Way, 3> ways = {};
  // for kOneOf: the step that reads the same bytes if no mark matches
  uint8_t otherwise = kNoStep;
  uint8_t to = 0;
  Style style = Style::kBySchema;
  bool trims_lines = false;  // for kText: a line break at either end belongs to the format
  bool is_numbered = false;  // for kName: "functions.NAME:0"
  ValueReader::Begin begin = ValueReader::Begin::kHere;
  const ValueDialect* dialect = &kJson;
  // for kJsonCall. True: the object may have other members. False: it may have only name and
  // arguments, and the tool must be declared.
  bool is_sure = true;

  friend bool operator==(const CallStep&, const CallStep&) = default;
};

// The steps that read the calls of a format.
struct CallSteps {
  // A mark that opens calls, and the step after it. `begins_answer`: it counts only at the
  // beginning of an answer.
  struct Begin {
    std::string_view mark;
    uint8_t step;
    bool begins_answer = false;
  };
  std::vector<Begin> begins;
  std::vector<CallStep> steps;
};

// Returns the steps that read calls in any of these syntaxes. Requires one or two syntaxes with the
// same opening mark.
CallSteps steps_of(const std::vector<CallSyntax>& syntaxes);

// Returns the steps after a header that names the function; they read the arguments of one call.
CallSteps steps_after_header();

}  // namespace kvik
