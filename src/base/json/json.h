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

// A JSON value for schemas, arguments of tool calls and the input of chat templates. Numbers are
// exact, and members keep their order. Request bodies and model files, which are read once, are
// boost::json::value instead: smaller, but with inexact numbers.
struct Json {
  struct Field;
  using List = std::vector<Json>;
  using Fields = std::vector<Field>;  // members in the order of the text
  using Null = std::monostate;
  // A number as written ("1.50", "1e400"), unless it is the text of an int64_t.
  struct Number {
    std::string text;
    friend bool operator==(const Number&, const Number&) = default;
  };
  enum class Kind : uint8_t { kNull, kFalse, kTrue, kNumber, kString, kArray, kObject };

  Variant<Null, bool, int64_t, double, std::string, List, Fields, Number> value;

  Kind kind() const;
  bool is(Kind wanted) const { return kind() == wanted; }
  bool is_bool() const { return std::holds_alternative<bool>(value); }

  // Return the text of a string, the elements of an array and the members of an object; empty for
  // other kinds.
  const std::string& text() const;
  const List& list() const;
  const Fields& fields() const;
  // Return the number of elements of an array or members of an object, and the i-th of them.
  size_t size() const;
  const Json& operator[](size_t i) const;
  // Returns an object's member; null if there is none.
  const Json* find(std::string_view name) const;

  // Returns a number as JSON text, as it was written if it was parsed; empty for other kinds.
  std::string number_text() const;
  // Returns the nearest double; std::nullopt for other kinds and for numbers beyond its range.
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

// Parses JSON (RFC 8259) in UTF-8; escaped surrogates must come in pairs. Of members with the same
// name the last one wins, at the position of the first. Errors: kInvalidArgument for other text,
// with the offset of the error, and for text beyond a limit.
Result<Json> parse_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace kvik
