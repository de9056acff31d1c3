#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json/json.h"
#include "base/result.h"

namespace kvik {

// A value of a structural tag and its path in the request. Errors name the path. Borrows the JSON.
class TagValue {
 public:
  // Free text is searched for all of its marks at once.
  static constexpr size_t kMaxMarks = 64;
  static constexpr size_t kMaxMarkBytes = 256;

  TagValue(const Json& json, std::string path) : json_(&json), path_(std::move(path)) {}

  const Json& json() const { return *json_; }
  const std::string& path() const { return path_; }

  // Return an error: "PATH WHAT", and "PATH is a string, expected EXPECTED".
  std::unexpected<Error> refuse(std::string_view what) const;
  std::unexpected<Error> wrong_kind(std::string_view expected) const;

  // Returns an object's member; nullopt if it is absent or null.
  std::optional<TagValue> find(std::string_view name) const;
  // Returns an object's member, which must exist.
  Result<TagValue> member(std::string_view name) const;
  TagValue item(size_t i) const;

  // Return the value as a string, and a member that is a string.
  Result<std::string> text() const;
  Result<std::string> text(std::string_view name) const;
  // Returns a member that is true or false; false if it is absent.
  Result<bool> flag(std::string_view name) const;
  // Returns the distinct texts of an array that free text is searched for. The array must exist and
  // have at least one, unless `min` is 0.
  Result<std::vector<std::string>> marks(std::string_view name, size_t min) const;

  // Refuses another value than an array of this size.
  Result<void> check_array(size_t min, size_t max) const;
  // Refuses members other than `type` and these. Those that are null, false or empty are ignored:
  // they are defaults of newer versions of the format.
  Result<void> check_members(std::span<const std::string_view> known) const;

 private:
  const Json* json_;
  std::string path_;
};

// Returns the text in quotes, shortened, for messages.
std::string quoted_text(std::string_view text);

}  // namespace kvik
