#include "text/hf/fields.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>

namespace kvik::hf {

namespace json = boost::json;

std::unexpected<Error> unexpected_value(std::string_view path, const json::value* value,
                                        std::string_view expected) {
  constexpr size_t kMaxShown = 60;
  std::string shown = value ? json::serialize(*value) : "missing";
  if (shown.size() > kMaxShown) shown.replace(kMaxShown, std::string::npos, "…");
  return fail(ErrorCode::kCorrupt,
              fmt::format("tokenizer.json: '{}' is {}, expected {}", path, shown, expected));
}

Result<Fields> Fields::of(const json::value& value, std::string path) {
  const json::object* object = value.if_object();
  if (!object) return unexpected_value(path, &value, "an object");
  return Fields(*object, std::move(path));
}

std::string Fields::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

std::string Fields::path_of(std::string_view key, size_t i) const {
  return fmt::format("{}[{}]", path_of(key), i);
}

std::unexpected<Error> Fields::unsupported(std::string_view key, std::string_view is,
                                           std::string_view expected) const {
  return fail(ErrorCode::kUnsupported,
              fmt::format("tokenizer.json: '{}' is '{}', expected {}", path_of(key), is, expected));
}

const json::value* Fields::find(std::string_view key) const {
  const json::value* value = object_->if_contains(key);
  return value && !value->is_null() ? value : nullptr;
}

Result<std::optional<std::string>> Fields::text(std::string_view key) const {
  const json::value* value = find(key);
  if (!value) return std::optional<std::string>();
  const json::string* text = value->if_string();
  if (!text) return unexpected_value(path_of(key), value, "a text");
  return std::optional(std::string(*text));
}

Result<std::string> Fields::required_text(std::string_view key) const {
  TRY_ASSIGN(auto found, text(key));
  if (!found) return unexpected_value(path_of(key), nullptr, "a text");
  return std::move(*found);
}

Result<bool> Fields::flag(std::string_view key, bool otherwise) const {
  const json::value* value = find(key);
  if (!value) return otherwise;
  const bool* flag = value->if_bool();
  if (!flag) return unexpected_value(path_of(key), value, "true or false");
  return *flag;
}

Result<std::optional<uint64_t>> Fields::number(std::string_view key) const {
  const json::value* value = find(key);
  if (!value) return std::optional<uint64_t>();
  if (const int64_t* number = value->if_int64(); number && *number >= 0) {
    return std::optional(static_cast<uint64_t>(*number));
  }
  if (const uint64_t* number = value->if_uint64()) return std::optional(*number);
  return unexpected_value(path_of(key), value, "a whole number from 0 up");
}

Result<const json::array*> Fields::list(std::string_view key) const {
  const json::value* value = find(key);
  if (!value) return static_cast<const json::array*>(nullptr);
  const json::array* list = value->if_array();
  if (!list) return unexpected_value(path_of(key), value, "a list");
  return list;
}

Result<const json::array*> Fields::required_list(std::string_view key) const {
  TRY_ASSIGN(const json::array* found, list(key));
  if (!found) return unexpected_value(path_of(key), nullptr, "a list");
  return found;
}

Result<std::optional<Fields>> Fields::object(std::string_view key) const {
  const json::value* value = find(key);
  if (!value) return std::optional<Fields>();
  TRY_ASSIGN(Fields fields, of(*value, path_of(key)));
  return std::optional(std::move(fields));
}

Result<Pattern> read_pattern(const Fields& fields) {
  TRY_ASSIGN(const auto pattern, fields.object("pattern"));
  if (!pattern) return unexpected_value(fields.path_of("pattern"), nullptr, "a text or a regex");
  TRY_ASSIGN(auto text, pattern->text("String"));
  if (text) return Pattern{std::move(*text), false};
  TRY_ASSIGN(auto regex, pattern->required_text("Regex"));
  return Pattern{std::move(regex), true};
}

}  // namespace kvik::hf
