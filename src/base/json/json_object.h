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

// The value of a JSON file. `file` names it in the error, which is kCorrupt.
Result<boost::json::value> parse_json_file(std::string_view text, std::string_view file);

// The error that `file` has something else at `path` (null: nothing) than what was expected.
std::unexpected<Error> unexpected_value(std::string_view file, std::string_view path,
                                        const boost::json::value* value, std::string_view expected,
                                        ErrorCode code = ErrorCode::kCorrupt);

// One object of a JSON file ("config.json"). Errors: kCorrupt, naming the file, the key, what it is
// and what was expected.
class JsonObject : public JsonReader {
 public:
  static Result<JsonObject> of(const boost::json::value& value, std::string file,
                               std::string path = {});

  Result<std::optional<uint64_t>> number(std::string_view key) const;
  // A whole number in [1, max] that must be there.
  Result<uint32_t> count(std::string_view key, uint64_t max) const;
  Result<std::optional<double>> real(std::string_view key) const;
  using JsonReader::flag;
  Result<bool> flag(std::string_view key, bool otherwise) const;
  Result<std::string> required_text(std::string_view key) const;
  Result<std::optional<JsonObject>> object(std::string_view key) const;
  // Calls take(value, its path) with each of a list, which must be there.
  template <class Take>
  Result<void> each_of(std::string_view key, const Take& take) const {
    TRY_ASSIGN(const auto* all, list(key));
    if (!all) return unexpected_value(key, "a list");
    for (size_t i = 0; i < all->size(); ++i) TRY(take((*all)[i], path_of(key, i)));
    return {};
  }
  // Empty where the key is absent.
  Result<std::vector<std::string>> texts(std::string_view key) const;
  Result<std::vector<double>> reals(std::string_view key) const;
  struct Range {
    double low, high;
  };
  // Two numbers, either of which may be infinite.
  Result<std::optional<Range>> range(std::string_view key) const;
  // A number or a list of them.
  Result<std::vector<uint64_t>> numbers(std::string_view key) const;

  // "config.json: 'rope_scaling.type' is "x", expected …" with the value that is there.
  std::unexpected<Error> unexpected_value(std::string_view key, std::string_view expected,
                                          ErrorCode code = ErrorCode::kCorrupt) const;
  // The error that what `key` names is of a kind that is not known here.
  std::unexpected<Error> unsupported(std::string_view key, std::string_view is,
                                     std::string_view expected) const;

 private:
  JsonObject(const boost::json::object& object, std::string file, std::string path)
      : JsonReader(object, std::move(path)), file_(std::move(file)) {}

  std::unexpected<Error> wrong_type(std::string_view key, Type expected) const override;

  std::string file_;
};

}  // namespace kvik
