#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "base/json/json_object.h"
#include "base/result.h"

namespace kvik::hf {

inline constexpr char kTokenizerFile[] = "tokenizer.json";

// Returns the object `value`, which is at `path` of tokenizer.json. Error: kCorrupt if it is not an
// object.
Result<JsonObject> object_at(const boost::json::value& value, std::string path);

// Returns the error that the value at `path` of tokenizer.json is not what was expected.
std::unexpected<Error> unexpected_value(std::string_view path, const boost::json::value* value,
                                        std::string_view expected);

// A text to split at or to replace: {"String": …} or {"Regex": …}.
struct Pattern {
  std::string text;
  bool is_regex = false;
};
Result<Pattern> read_pattern(const JsonObject& object);

}  // namespace kvik::hf
