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
#include <vector>

#include "base/json/json.h"
#include "base/result.h"
#include "base/token_id.h"
#include "service/request_bounds.h"

namespace kvik {

// The object's field; null where there is none.
const boost::json::value& at(const boost::json::object& object, std::string_view name);

// Reads typed fields of a request. Absent and null are nullopt; another type is kInvalidArgument
// with the field as `param`. Borrows the object.
class JsonFields {
 public:
  explicit JsonFields(const boost::json::object& object) : object_(object) {}
  // Of an object inside a request: errors call its fields "outer.name".
  JsonFields(const boost::json::object& object, std::string_view outer)
      : object_(object), prefix_(std::string(outer) + ".") {}

  const boost::json::object& all() const { return object_; }

  // Null where the field is absent or null.
  const boost::json::value* find(std::string_view name) const;

  Result<std::optional<bool>> boolean(std::string_view name) const;
  // A field with a bound that all of its kind have; longer ones are kInvalidArgument.
  Result<std::optional<std::string>> string(std::string_view name,
                                            size_t max_bytes = RequestBounds::kFieldBytes) const;
  // A prompt, as long as a body may be.
  Result<std::optional<std::string>> text(std::string_view name) const {
    return string(name, SIZE_MAX);
  }
  Result<std::optional<const boost::json::array*>> array(std::string_view name) const;
  Result<std::optional<const boost::json::object*>> object(std::string_view name) const;
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
  std::string full(std::string_view name) const { return prefix_ + std::string(name); }

  const boost::json::object& object_;
  std::string prefix_;
};

// For elements of arrays: the value as a number of that kind, or nullopt.
std::optional<uint64_t> as_count(const boost::json::value& value);
std::optional<double> as_finite(const boost::json::value& value);

// All elements as token ids; `name` is the field that the error names.
Result<std::vector<TokenId>> read_token_ids(std::string_view name, const boost::json::array& array);

// The string of that name; empty where there is none.
std::string_view text_at(const boost::json::object& object, std::string_view name);

std::string_view view(const boost::json::string& text);

// What a template is given of a value. Whole numbers that no int64_t holds become doubles.
Json to_data(const boost::json::value& value);
Json to_data(const boost::json::object& object);

// "a string", "an array": what a wrong value is, for the sentence that refuses it.
std::string_view kind_name(const boost::json::value& value);

std::unexpected<Error> refuse(std::string_view param, std::string message);  // kInvalidArgument
// "NAME is not supported".
std::unexpected<Error> unsupported(std::string_view param);

std::unexpected<Error> wrong_type(std::string_view name, std::string_view expected,
                                  const boost::json::value& value);

}  // namespace kvik
