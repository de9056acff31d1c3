#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvik::hf {

// One object of a tokenizer.json, which outlives this, and where it stands in the file. A key whose
// value is null counts as absent. Errors: kCorrupt, naming the key, what it is and what was
// expected.
class Fields {
 public:
  static Result<Fields> of(const boost::json::value& value, std::string path);

  // Null where the key is absent.
  const boost::json::value* find(std::string_view key) const;

  Result<std::optional<std::string>> text(std::string_view key) const;
  Result<std::string> required_text(std::string_view key) const;
  Result<bool> flag(std::string_view key, bool otherwise) const;
  Result<std::optional<uint64_t>> number(std::string_view key) const;
  // Null where the key is absent.
  Result<const boost::json::array*> list(std::string_view key) const;
  Result<std::optional<Fields>> object(std::string_view key) const;

  // Calls take(value, its path) with each of a list, which must be there.
  template <class Take>
  Result<void> each_of(std::string_view key, const Take& take) const {
    TRY_ASSIGN(const auto* all, required_list(key));
    for (size_t i = 0; i < all->size(); ++i) TRY(take((*all)[i], path_of(key, i)));
    return {};
  }
  Result<const boost::json::array*> required_list(std::string_view key) const;

  // The error that what `key` names is of a kind that is not known here.
  std::unexpected<Error> unsupported(std::string_view key, std::string_view is,
                                     std::string_view expected) const;

  // "model.vocab", for errors.
  std::string path_of(std::string_view key) const;
  std::string path_of(std::string_view key, size_t i) const;

 private:
  Fields(const boost::json::object& object, std::string path)
      : object_(&object), path_(std::move(path)) {}

  const boost::json::object* object_;
  std::string path_;
};

// The error that tokenizer.json has something else at `path` than what was expected.
std::unexpected<Error> unexpected_value(std::string_view path, const boost::json::value* value,
                                        std::string_view expected);

// What to split or replace: {"String": …} or {"Regex": …}.
struct Pattern {
  std::string text;
  bool is_regex = false;
};
Result<Pattern> read_pattern(const Fields& fields);

}  // namespace kvik::hf
