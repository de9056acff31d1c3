#include "base/json/json_object.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "base/file/lfs_pointer.h"

namespace kvik {

namespace json = boost::json;

namespace {

constexpr size_t kMaxDepth = 32;

std::optional<uint64_t> as_number(const json::value& value) {
  if (const int64_t* number = value.if_int64(); number && *number >= 0) return *number;
  if (const uint64_t* number = value.if_uint64()) return *number;
  return std::nullopt;
}

constexpr std::string_view kNamedFloats[] = {"Infinity", "-Infinity", "NaN"};

// Returns the text with Infinity replaced by {"__float__": "Infinity"}. JSON has no infinity.
// Python's json module writes the first form nevertheless, and Transformers since 5.20 the second.
std::string with_named_floats(std::string_view text) {
  std::string out;
  bool is_in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    const auto name = std::ranges::find_if(
        kNamedFloats, [&](std::string_view named) { return rest.starts_with(named); });
    if (!is_in_string && name != std::end(kNamedFloats)) {
      out += fmt::format(R"({{"__float__":"{}"}})", *name);
      i += name->size() - 1;
      continue;
    }
    if (is_in_string && text[i] == '\\' && i + 1 < text.size())
      out += text[i++];
    else if (text[i] == '"')
      is_in_string = !is_in_string;
    out += text[i];
  }
  return out;
}

// Returns the name in {"__float__": "Infinity"}.
std::optional<std::string_view> named_float(const json::value& value) {
  const json::object* object = value.if_object();
  const json::value* name =
      object && object->size() == 1 ? object->if_contains("__float__") : nullptr;
  const json::string* text = name ? name->if_string() : nullptr;
  if (!text) return std::nullopt;
  return std::string_view(text->data(), text->size());
}

std::string shown(const json::value* value) {
  constexpr size_t kMaxShown = 60;
  if (!value) return "missing";
  if (const auto name = named_float(*value)) return std::string(*name);
  // A long list is described by its length.
  if (const json::array* list = value->if_array(); list && list->size() > kMaxShown) {
    return fmt::format("a list of {}", list->size());
  }
  std::string text = json::serialize(*value);
  if (text.size() > kMaxShown) text.replace(kMaxShown, std::string::npos, "…");
  return text;
}

std::optional<double> as_named_float(const json::value& value) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto name = named_float(value);
  if (name == "Infinity") return kInfinity;
  if (name == "-Infinity") return -kInfinity;
  return std::nullopt;
}

std::optional<double> as_real(const json::value& value) {
  if (const double* real = value.if_double()) return *real;
  if (const int64_t* number = value.if_int64()) return static_cast<double>(*number);
  if (const uint64_t* number = value.if_uint64()) return static_cast<double>(*number);
  return as_named_float(value);
}

}  // namespace

Result<json::value> parse_json_file(std::string_view text, std::string_view file) {
  if (text.starts_with(kLfsPointer)) {
    return fail(ErrorCode::kCorrupt, fmt::format("{} is {}", file, kIsLfsPointer));
  }
  json::parse_options options;
  options.max_depth = kMaxDepth;
  boost::system::error_code error;
  json::value value = json::parse(json::string_view(text.data(), text.size()), error, {}, options);
  if (error && std::ranges::any_of(kNamedFloats,
                                   [&](std::string_view name) { return text.contains(name); })) {
    const std::string named = with_named_floats(text);
    boost::system::error_code still;
    json::value again =
        json::parse(json::string_view(named.data(), named.size()), still, {}, options);
    if (!still) return again;
  }
  if (!error) return value;
  return fail(ErrorCode::kCorrupt,
              fmt::format("{} cannot be parsed as JSON: {}", file, error.message()));
}

std::unexpected<Error> unexpected_value(std::string_view file, std::string_view path,
                                        const json::value* value, std::string_view expected,
                                        ErrorCode code) {
  return fail(code, fmt::format("{}: '{}' is {}, expected {}", file, path, shown(value), expected));
}

Result<JsonObject> JsonObject::of(const json::value& value, std::string file, std::string path) {
  if (const json::object* object = value.if_object()) {
    return JsonObject(*object, std::move(file), std::move(path));
  }
  if (!path.empty()) return kvik::unexpected_value(file, path, &value, "an object");
  return fail(ErrorCode::kCorrupt,
              fmt::format("{} is {}, expected an object", file, shown(&value)));
}

std::unexpected<Error> JsonObject::wrong_type(std::string_view key, Type expected) const {
  constexpr std::string_view kTypes[] = {"true or false", "a string", "an array", "an object"};
  return unexpected_value(key, kTypes[static_cast<size_t>(expected)]);
}

std::unexpected<Error> JsonObject::unexpected_value(std::string_view key, std::string_view expected,
                                                    ErrorCode code) const {
  return kvik::unexpected_value(file_, path_of(key), find(key), expected, code);
}

std::unexpected<Error> JsonObject::unsupported(std::string_view key, std::string_view is,
                                               std::string_view expected) const {
  return fail(ErrorCode::kUnsupported,
              fmt::format("{}: '{}' is '{}', expected {}", file_, path_of(key), is, expected));
}

Result<std::optional<uint64_t>> JsonObject::number(std::string_view key) const {
  const json::value* value = find(key);
  if (!value) return std::optional<uint64_t>();
  if (const auto number = as_number(*value)) return number;
  return unexpected_value(key, "a non-negative integer");
}

Result<uint32_t> JsonObject::count(std::string_view key, uint64_t max) const {
  TRY_ASSIGN(const auto found, number(key));
  if (found && *found >= 1 && *found <= max) return static_cast<uint32_t>(*found);
  return unexpected_value(key, fmt::format("an integer from 1 to {}", max));
}

Result<std::optional<double>> JsonObject::real(std::string_view key) const {
  const json::value* value = find(key);
  if (!value) return std::optional<double>();
  if (const auto real = as_real(*value); real && std::isfinite(*real)) return real;
  return unexpected_value(key, "a number");
}

Result<bool> JsonObject::flag(std::string_view key, bool otherwise) const {
  TRY_ASSIGN(const auto found, flag(key));
  return found.value_or(otherwise);
}

Result<std::string> JsonObject::required_text(std::string_view key) const {
  TRY_ASSIGN(auto found, text(key));
  if (!found) return unexpected_value(key, "a string");
  return std::move(*found);
}

Result<std::optional<JsonObject>> JsonObject::object(std::string_view key) const {
  const json::value* value = find(key);
  if (value && named_float(*value)) return unexpected_value(key, "an object");
  TRY_ASSIGN(const json::object* object, object_at(key));
  if (!object) return std::optional<JsonObject>();
  return std::optional(JsonObject(*object, file_, path_of(key)));
}

Result<std::vector<std::string>> JsonObject::texts(std::string_view key) const {
  std::vector<std::string> all;
  const json::value* value = find(key);
  if (!value) return all;
  const json::array* list = value->if_array();
  if (!list) return unexpected_value(key, "an array of strings");
  for (const json::value& item : *list) {
    const json::string* text = item.if_string();
    if (!text) return unexpected_value(key, "an array of strings");
    all.emplace_back(*text);
  }
  return all;
}

Result<std::vector<double>> JsonObject::reals(std::string_view key) const {
  std::vector<double> all;
  const json::value* value = find(key);
  if (!value) return all;
  const json::array* list = value->if_array();
  if (!list) return unexpected_value(key, "an array of numbers");
  for (const json::value& item : *list) {
    const auto real = as_real(item);
    if (!real || !std::isfinite(*real)) return unexpected_value(key, "an array of numbers");
    all.push_back(*real);
  }
  return all;
}

Result<std::optional<JsonObject::Range>> JsonObject::range(std::string_view key) const {
  const json::value* value = find(key);
  if (!value) return std::optional<Range>();
  const json::array* list = value->if_array();
  const auto low = list && list->size() == 2 ? as_real(list->front()) : std::nullopt;
  const auto high = list && list->size() == 2 ? as_real(list->back()) : std::nullopt;
  if (low && high && *low <= *high) return std::optional(Range{*low, *high});
  return unexpected_value(key, "a smallest and a largest number");
}

Result<std::vector<uint64_t>> JsonObject::numbers(std::string_view key) const {
  std::vector<uint64_t> all;
  const json::value* value = find(key);
  if (!value) return all;
  if (const auto one = as_number(*value)) return std::vector<uint64_t>{*one};
  const json::array* list = value->if_array();
  if (!list) return unexpected_value(key, "a non-negative integer, or a list of them");
  for (const json::value& item : *list) {
    const auto number = as_number(item);
    if (!number) return unexpected_value(key, "a non-negative integer, or a list of them");
    all.push_back(*number);
  }
  return all;
}

}  // namespace kvik
