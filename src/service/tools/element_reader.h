#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"

namespace kvik {

// Reads arguments as nested elements (CallSyntax::Values::kElements) byte by byte and converts them
// to JSON. An element with elements named "item" is a list, one with others is an object, and the
// schema decides what a text is. Runs in linear time; the result does not depend on how the bytes
// are divided.
class ElementReader {
 public:
  // `parameters`: the tool's schema, which is borrowed; null: unknown. `end`: the tag after the
  // last argument.
  ElementReader(const Json* parameters, std::string_view end);

  // kDone: this byte was the last of the tag `end`. kBroken: the bytes so far are not arguments.
  enum class State : uint8_t { kMore, kDone, kBroken };
  State push(char byte);

  // The JSON so far; of a string, the part that is certain.
  const std::string& json() const { return json_; }
  // Number of bytes that were read last and are not in json().
  size_t n_held() const { return place_ == Place::kText ? text_.size() - n_put_ : held_.size(); }

 private:
  struct Frame {  // an object or a list that is open
    std::string tag;
    const Json* schema;
    bool is_list;
    size_t n_children = 0;
  };
  enum class Place : uint8_t {
    kBetween,  // between elements
    kBegin,    // after the tag that opens an element
    kText,     // in an element without elements
  };

  State between(char byte);
  State begin(char byte);
  State text(char byte);
  State begin_text();
  State end_tag();
  bool open_element(std::string_view tag);
  void end_text();
  const Json* child_schema(std::string_view tag) const;

  const Json* root_;
  std::string_view end_;
  std::string json_ = "{";
  std::vector<Frame> frames_;
  Place place_ = Place::kBetween;
  std::string held_;  // an incomplete tag
  // The element that was opened last.
  std::string tag_;
  const Json* schema_ = nullptr;
  bool is_string_ = false;     // its text is a string in any case
  bool skips_blanks_ = false;  // its text is no string in any case
  std::string text_, closing_;
  size_t n_put_ = 0;  // bytes of text_ in json_
};

}  // namespace kvik
