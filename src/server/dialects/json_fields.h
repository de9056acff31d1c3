#pragma once

#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <boost/json/value.hpp>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json/json.h"
#include "base/json/json_reader.h"
#include "base/result.h"
#include "base/token_id.h"

namespace kvik {

// Returns the object's field; null if there is none.
const boost::json::value& at(const boost::json::object& object, std::string_view name);

// Reads the fields of a request's object. Errors: kInvalidArgument with the field's path as
// `param`.
class JsonFields : public JsonReader {
 public:
  explicit JsonFields(const boost::json::object& object, std::string path = {})
      : JsonReader(object, std::move(path)) {}

  Result<std::optional<JsonFields>> object(std::string_view name) const;
  // Reads a string of limited length; text() allows the size of a body.
  Result<std::optional<std::string>> string(std::string_view name) const;
  // Reads a number that is finite, also as a float.
  Result<std::optional<float>> number(std::string_view name) const;
  // Reads an integer that fits, possibly negative.
  Result<std::optional<int32_t>> integer(std::string_view name) const;
  // Reads an integer from 0 to the type's maximum.
  template <std::unsigned_integral T>
  Result<std::optional<T>> count(std::string_view name) const {
    TRY_ASSIGN(const auto wide, count_up_to(name, std::numeric_limits<T>::max()));
    if (!wide) return std::optional<T>();
    return std::optional<T>(static_cast<T>(*wide));
  }

 private:
  Result<std::optional<uint64_t>> count_up_to(std::string_view name, uint64_t limit) const;
  std::unexpected<Error> wrong_type(std::string_view name, Type expected) const override;
};

// Returns whether a field is a whole number below `least`: "off", "random" or "no limit" in the
// APIs of local servers.
bool is_below(const JsonFields& fields, std::string_view name, double least);

// For elements of arrays: return the value as a number of that kind, or std::nullopt.
std::optional<uint64_t> as_count(const boost::json::value& value);
std::optional<double> as_finite(const boost::json::value& value);

// Reads a token id, or all elements as token ids; `name` is the field in errors.
Result<TokenId> read_token_id(std::string_view name, const boost::json::value& value);
Result<std::vector<TokenId>> read_token_ids(std::string_view name, const boost::json::array& array);

// Returns the string of that name; empty if there is none.
std::string_view text_at(const boost::json::object& object, std::string_view name);

std::string_view view(const boost::json::string& text);

// Returns the value in the form for templates and tools. Whole numbers beyond int64_t become
// doubles.
Json owned_json(const boost::json::value& value);
Json owned_json(const boost::json::object& object);

// Parses the arguments of a call, an object as JSON in a string. Its numbers remain as written.
// Returns any other text unchanged.
Json read_arguments(std::string_view text);

// Returns the kind of a value for an error: "a string", "an array".
std::string_view kind_name(const boost::json::value& value);

std::unexpected<Error> refuse(std::string_view param, std::string message);  // kInvalidArgument
// Returns the error "NAME is not supported".
std::unexpected<Error> unsupported(std::string_view param);

std::unexpected<Error> wrong_type(std::string_view name, std::string_view expected,
                                  const boost::json::value& value);

}  // namespace kvik
