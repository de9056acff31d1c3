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

// The object's field; null where there is none.
const boost::json::value& at(const boost::json::object& object, std::string_view name);

// Reads the fields of a request's object. Errors: kInvalidArgument with the field's path as
// `param`.
class JsonFields : public JsonReader {
 public:
  explicit JsonFields(const boost::json::object& object, std::string path = {})
      : JsonReader(object, std::move(path)) {}

  Result<std::optional<JsonFields>> object(std::string_view name) const;
  // A field with a bound that all of its kind have; text() has as many bytes as a body may.
  Result<std::optional<std::string>> string(std::string_view name) const;
  // Finite, also as a float.
  Result<std::optional<float>> number(std::string_view name) const;
  // Whole numbers that fit, negative ones too.
  Result<std::optional<int32_t>> integer(std::string_view name) const;
  // Whole numbers from 0 to what the type holds.
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

// For elements of arrays: the value as a number of that kind, or nullopt.
std::optional<uint64_t> as_count(const boost::json::value& value);
std::optional<double> as_finite(const boost::json::value& value);

// All elements as token ids; `name` is the field that the error names.
Result<std::vector<TokenId>> read_token_ids(std::string_view name, const boost::json::array& array);

// The string of that name; empty where there is none.
std::string_view text_at(const boost::json::object& object, std::string_view name);

std::string_view view(const boost::json::string& text);

// The value as templates and tools take it. Whole numbers that no int64_t holds become doubles.
Json owned_json(const boost::json::value& value);
Json owned_json(const boost::json::object& object);

// "a string", "an array": what a wrong value is, for the sentence that refuses it.
std::string_view kind_name(const boost::json::value& value);

std::unexpected<Error> refuse(std::string_view param, std::string message);  // kInvalidArgument
// "NAME is not supported".
std::unexpected<Error> unsupported(std::string_view param);

std::unexpected<Error> wrong_type(std::string_view name, std::string_view expected,
                                  const boost::json::value& value);

}  // namespace kvik
