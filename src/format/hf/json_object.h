#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvik::hf {

// The value of a JSON text of a model's folder. `file` names it in the error, which is kCorrupt.
Result<boost::json::value> parse_json(std::string_view text, std::string_view file);

// One object of a JSON file, which outlives this, and where it stands there ("config.json",
// "rope_scaling"). A key whose value is null counts as absent. Errors: kCorrupt, naming the file,
// the key, what it is and what was expected.
class JsonObject {
 public:
  static Result<JsonObject> of(const boost::json::value& value, std::string file,
                               std::string path = {});

  const boost::json::object& all() const { return *object_; }
  // Null where the key is absent.
  const boost::json::value* find(std::string_view key) const;

  Result<std::optional<uint64_t>> number(std::string_view key) const;
  // A whole number in [1, max] that must be there.
  Result<uint32_t> count(std::string_view key, uint64_t max) const;
  Result<std::optional<double>> real(std::string_view key) const;
  Result<std::optional<bool>> flag(std::string_view key) const;
  Result<std::optional<std::string>> text(std::string_view key) const;
  Result<std::optional<JsonObject>> object(std::string_view key) const;
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

 private:
  JsonObject(const boost::json::object& object, std::string file, std::string path)
      : object_(&object), file_(std::move(file)), path_(std::move(path)) {}

  std::string path_of(std::string_view key) const;

  const boost::json::object* object_;
  std::string file_;
  std::string path_;
};

}  // namespace kvik::hf
