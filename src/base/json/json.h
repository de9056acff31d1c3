#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/variant.h"

namespace kvik {

// A JSON value that owns all of it: schemas, arguments of tool calls, and what chat templates are
// given. Numbers are exact, and members keep their order. Trees of request bodies and model files,
// which are read once, are boost::json::value: smaller, without exact numbers.
struct Json {
  struct Field;
  using List = std::vector<Json>;
  using Fields = std::vector<Field>;  // in the order of the text
  using Null = std::monostate;
  // A number as it is written ("1.50", "1e400"), where its text is not that of an int64_t.
  struct Number {
    std::string text;
    friend bool operator==(const Number&, const Number&) = default;
  };
  enum class Kind : uint8_t { kNull, kFalse, kTrue, kNumber, kString, kArray, kObject };

  Variant<Null, bool, int64_t, double, std::string, List, Fields, Number> value;

  Kind kind() const;
  bool is(Kind wanted) const { return kind() == wanted; }
  bool is_bool() const { return std::holds_alternative<bool>(value); }

  // The text of a string and the elements of an array or object: empty for all other kinds.
  const std::string& text() const;
  const List& list() const;
  const Fields& fields() const;
  // The elements of an array or the values of an object's members.
  size_t size() const;
  const Json& operator[](size_t i) const;
  // An object's member; null if there is none.
  const Json* find(std::string_view name) const;

  // A number as JSON, as written where it was parsed; empty for all other kinds.
  std::string number_text() const;
  // The nearest double; nullopt for other kinds and beyond its range.
  std::optional<double> number() const;

  friend bool operator==(const Json&, const Json&) = default;
};

struct Json::Field {
  std::string name;
  Json data;
  friend bool operator==(const Field&, const Field&) = default;
};

struct JsonLimits {
  size_t max_bytes = size_t{2} << 20;
  size_t max_values = 200'000;
  size_t max_depth = 200;
};

// Parses RFC 8259 JSON in UTF-8; escaped surrogates must come in pairs. Of members with one name
// the last stays, in the place of the first. Errors: kInvalidArgument for other text, with the byte
// where it goes wrong, and for text above a limit.
Result<Json> parse_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace kvik
