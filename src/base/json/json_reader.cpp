#include "base/json/json_reader.h"

#include <fmt/format.h>

#include <boost/json/string.hpp>

namespace kvik {

namespace json = boost::json;

const json::value* JsonReader::find(std::string_view key) const {
  const json::value* value = object_->if_contains(key);
  return value && !value->is_null() ? value : nullptr;
}

Result<std::optional<bool>> JsonReader::flag(std::string_view key) const {
  const json::value* value = find(key);
  if (!value) return std::optional<bool>();
  if (const bool* flag = value->if_bool()) return std::optional(*flag);
  return wrong_type(key, Type::kFlag);
}

Result<std::optional<std::string>> JsonReader::text(std::string_view key) const {
  const json::value* value = find(key);
  if (!value) return std::optional<std::string>();
  if (const json::string* text = value->if_string()) return std::optional(std::string(*text));
  return wrong_type(key, Type::kText);
}

Result<const json::array*> JsonReader::list(std::string_view key) const {
  const json::value* value = find(key);
  if (!value) return static_cast<const json::array*>(nullptr);
  if (const json::array* list = value->if_array()) return list;
  return wrong_type(key, Type::kList);
}

Result<const json::object*> JsonReader::object_at(std::string_view key) const {
  const json::value* value = find(key);
  if (!value) return static_cast<const json::object*>(nullptr);
  if (const json::object* object = value->if_object()) return object;
  return wrong_type(key, Type::kObject);
}

std::string JsonReader::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

std::string JsonReader::path_of(std::string_view key, size_t i) const {
  return fmt::format("{}[{}]", path_of(key), i);
}

}  // namespace kvik
