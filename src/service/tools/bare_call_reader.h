#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "service/answer_part.h"
#include "service/tools/tool_schemas.h"
#include "service/tools/value_reader.h"

namespace kvik {

// Recognizes calls that a model wrote without the markup of its format: one or more JSON objects
// with a name and arguments. They may be bare, in a list, in fenced blocks, or between the tags in
// which the prompt lists the tools, and may have the doubled braces of a template:
//
//   ```json
//   {"name": "get_weather", "arguments": {"city": "Paris"}}
//   ```
//
// They count as calls only at the end of an answer, if everything that was read consists of such
// objects, the tools are declared and the arguments match their schemas. Anything else is text that
// happens to contain JSON. Runs in time linear in the text; the result does not depend on how the
// text is divided.
class BareCallReader {
 public:
  // Borrows the schemas.
  explicit BareCallReader(const ToolSchemas& schemas) : schemas_(schemas) {}

  // Returns whether a text that begins with this byte may be a bare call.
  static bool may_begin(char byte) { return kFirstBytes.contains(byte); }
  static constexpr std::string_view kFirstBytes = "{[`<";

  // kBroken: text(), which includes this byte, is not a call.
  enum class State : uint8_t { kMore, kBroken };
  State push(char byte);
  const std::string& text() const { return text_; }

  // Returns the calls if the answer ends here; empty if the input is text.
  std::vector<AnswerPart> calls() const;

 private:
  enum class Place : uint8_t {
    kBetween,      // before, between or after objects
    kFence,        // inside the ``` of a fence
    kLanguage,     // after the ``` that opens a block
    kTag,          // inside a tag
    kBrace,        // after the brace that opens an object
    kObject,       // inside the object
    kSecondBrace,  // after an object that was opened with two braces
  };
  State between(char byte);
  State fence(char byte);
  State language(char byte);
  State tag(char byte);
  State brace(char byte);
  State object(char byte);
  State end_object();
  const ValueReader::Member* find_member(std::span<const std::string_view> keys) const;
  std::string name_so_far() const;

  const ToolSchemas& schemas_;
  std::string text_;
  Place place_ = Place::kBetween;
  std::string held_;  // an incomplete fence, language or tag
  bool is_in_block_ = false;
  bool is_in_list_ = false;
  bool has_two_braces_ = false;
  std::optional<ValueReader> value_;
  std::vector<AnswerPart> calls_;
};

}  // namespace kvik
