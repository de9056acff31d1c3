#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace kvik::constrain {

// A JSON value as a schema needs it: numbers as they are written, members in their order.
struct Json {
  enum class Kind : uint8_t { kNull, kFalse, kTrue, kNumber, kString, kArray, kObject };
  Kind kind = Kind::kNull;
  std::string text;                // a string's in UTF-8, or a number's as it is written
  std::vector<std::string> names;  // of an object's members
  std::vector<Json> items;         // of an array, or the members' values

  bool is(Kind k) const { return kind == k; }
  bool is_bool() const { return kind == Kind::kTrue || kind == Kind::kFalse; }
  // An object's member; null where there is none.
  const Json* find(std::string_view name) const;
  // In as few bytes as possible; numbers without exponents where that takes up to 400 digits.
  std::string compact() const;
};

struct JsonLimits {
  size_t max_bytes = size_t{2} << 20;
  size_t max_values = 200'000;
  size_t max_depth = 200;
};

// Errors, as kInvalidArgument: not JSON, not UTF-8, above a limit. Of members with one name the
// last stays, in the place of the first.
Result<Json> parse_json(std::string_view text, const JsonLimits& limits = {});

// The characters of UTF-8 that is valid.
std::u32string to_characters(std::string_view utf8);

}  // namespace kvik::constrain
