#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "base/json/json_object.h"
#include "base/result.h"

namespace kvik::hf {

inline constexpr char kTokenizerFile[] = "tokenizer.json";

// The object that tokenizer.json has at `path`. Errors: kCorrupt.
Result<JsonObject> object_at(const boost::json::value& value, std::string path);

// The error that tokenizer.json has something else at `path` than what was expected.
std::unexpected<Error> unexpected_value(std::string_view path, const boost::json::value* value,
                                        std::string_view expected);

// A text to split at or to replace: {"String": …} or {"Regex": …}.
struct Pattern {
  std::string text;
  bool is_regex = false;
};
Result<Pattern> read_pattern(const JsonObject& object);

}  // namespace kvik::hf
