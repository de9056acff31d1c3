#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json/json_reader.h"
#include "base/result.h"

namespace kvik {

// Parses a JSON file. `file` is its name in the error, which is kCorrupt.
Result<boost::json::value> parse_json_file(std::string_view text, std::string_view file);

// Returns the error that the value at `path` of `file` (null: no value) is not what was expected.
std::unexpected<Error> unexpected_value(std::string_view file, std::string_view path,
                                        const boost::json::value* value, std::string_view expected,
                                        ErrorCode code = ErrorCode::kCorrupt);

// An object of a JSON file such as config.json. Errors: kCorrupt, naming the file, the key, its
// value and what was expected.
class JsonObject : public JsonReader {
 public:
  // Returns `value` as an object. `path` is its location in the file; empty: the whole file.
  static Result<JsonObject> of(const boost::json::value& value, std::string file,
                               std::string path = {});

  Result<std::optional<uint64_t>> number(std::string_view key) const;
  // Returns a required integer in [1, max].
  Result<uint32_t> count(std::string_view key, uint64_t max) const;
  Result<std::optional<double>> real(std::string_view key) const;
  using JsonReader::flag;
  Result<bool> flag(std::string_view key, bool otherwise) const;
  Result<std::string> required_text(std::string_view key) const;
  Result<std::optional<JsonObject>> object(std::string_view key) const;
  // Calls take(value, path) for each element of a required list.
  template <class Take>
  Result<void> each_of(std::string_view key, const Take& take) const {
    TRY_ASSIGN(const auto* all, list(key));
    if (!all) return unexpected_value(key, "a list");
    for (size_t i = 0; i < all->size(); ++i) TRY(take((*all)[i], path_of(key, i)));
    return {};
  }
  // Return an empty list if the key is absent.
  Result<std::vector<std::string>> texts(std::string_view key) const;
  Result<std::vector<double>> reals(std::string_view key) const;
  struct Range {
    double low, high;
  };
  // Returns two numbers, either of which may be infinite.
  Result<std::optional<Range>> range(std::string_view key) const;
  // Returns a list of integers, which may be a single number in the file.
  Result<std::vector<uint64_t>> numbers(std::string_view key) const;

  // Returns the error "config.json: 'rope_scaling.type' is "x", expected …" with the actual value.
  std::unexpected<Error> unexpected_value(std::string_view key, std::string_view expected,
                                          ErrorCode code = ErrorCode::kCorrupt) const;
  // Returns the error that the value of `key` is unsupported.
  std::unexpected<Error> unsupported(std::string_view key, std::string_view is,
                                     std::string_view expected) const;

 private:
  JsonObject(const boost::json::object& object, std::string file, std::string path)
      : JsonReader(object, std::move(path)), file_(std::move(file)) {}

  std::unexpected<Error> wrong_type(std::string_view key, Type expected) const override;

  std::string file_;
};

}  // namespace kvik
