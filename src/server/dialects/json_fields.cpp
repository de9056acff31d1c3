#include "server/dialects/json_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace kvik {
namespace json = boost::json;

namespace {

// Doubles above are no longer every whole number.
constexpr double kMaxExact = 9007199254740992.0;

}  // namespace

const json::value& at(const json::object& object, std::string_view name) {
  static const json::value null;
  const json::value* value = object.if_contains(name);
  return value ? *value : null;
}

const json::value* JsonFields::find(std::string_view name) const {
  const json::value* value = object_.if_contains(name);
  return value && value->is_null() ? nullptr : value;
}

Result<std::optional<bool>> JsonFields::boolean(std::string_view name) const {
  const json::value* value = find(name);
  if (!value) return std::optional<bool>();
  if (!value->is_bool()) return wrong_type(full(name), "true or false", *value);
  return std::optional<bool>(value->get_bool());
}

Result<std::optional<std::string>> JsonFields::string(std::string_view name,
                                                      size_t max_bytes) const {
  const json::value* value = find(name);
  if (!value) return std::optional<std::string>();
  if (!value->is_string()) return wrong_type(full(name), "a string", *value);
  const size_t n_bytes = value->get_string().size();
  if (n_bytes > max_bytes) {
    return refuse(full(name), fmt::format("{} has {} bytes, at most {} are allowed", full(name),
                                          n_bytes, max_bytes));
  }
  return std::optional<std::string>(view(value->get_string()));
}

Result<std::optional<const json::array*>> JsonFields::array(std::string_view name) const {
  const json::value* value = find(name);
  if (!value) return std::optional<const json::array*>();
  if (!value->is_array()) return wrong_type(full(name), "an array", *value);
  return std::optional<const json::array*>(&value->get_array());
}

Result<std::optional<const json::object*>> JsonFields::object(std::string_view name) const {
  const json::value* value = find(name);
  if (!value) return std::optional<const json::object*>();
  if (!value->is_object()) return wrong_type(full(name), "an object", *value);
  return std::optional<const json::object*>(&value->get_object());
}

Result<std::optional<float>> JsonFields::number(std::string_view name) const {
  const json::value* value = find(name);
  if (!value) return std::optional<float>();
  if (!value->is_number()) return wrong_type(full(name), "a number", *value);
  const auto wide = as_finite(*value);
  if (!wide || std::abs(*wide) > std::numeric_limits<float>::max())
    return refuse(full(name), fmt::format("{} is out of range", full(name)));
  return std::optional<float>(static_cast<float>(*wide));
}

Result<std::optional<uint64_t>> JsonFields::count_up_to(std::string_view name,
                                                        uint64_t limit) const {
  const json::value* value = find(name);
  if (!value) return std::optional<uint64_t>();
  if (!value->is_number()) return wrong_type(full(name), "a whole number", *value);
  const auto count = as_count(*value);
  if (!count || *count > limit)
    return refuse(full(name),
                  fmt::format("{} must be a whole number from 0 to {}", full(name), limit));
  return count;
}

Result<std::optional<int32_t>> JsonFields::integer(std::string_view name) const {
  const json::value* value = find(name);
  if (!value) return std::optional<int32_t>();
  if (!value->is_number()) return wrong_type(full(name), "a whole number", *value);
  const auto wide = as_finite(*value);
  using Limits = std::numeric_limits<int32_t>;
  if (!wide || *wide != std::floor(*wide) || *wide < Limits::min() || *wide > Limits::max())
    return refuse(full(name), fmt::format("{} must be a whole number from {} to {}", full(name),
                                          Limits::min(), Limits::max()));
  return std::optional<int32_t>(static_cast<int32_t>(*wide));
}

std::optional<uint64_t> as_count(const json::value& value) {
  if (value.is_uint64()) return value.get_uint64();
  if (value.is_int64() && value.get_int64() >= 0) return static_cast<uint64_t>(value.get_int64());
  if (!value.is_double()) return std::nullopt;
  const double number = value.get_double();  // 16.0 is as good as 16
  if (!(number >= 0 && number <= kMaxExact) || number != std::floor(number)) return std::nullopt;
  return static_cast<uint64_t>(number);
}

std::optional<double> as_finite(const json::value& value) {
  if (value.is_int64()) return static_cast<double>(value.get_int64());
  if (value.is_uint64()) return static_cast<double>(value.get_uint64());
  if (!value.is_double() || !std::isfinite(value.get_double())) return std::nullopt;
  return value.get_double();
}

Result<std::vector<TokenId>> read_token_ids(std::string_view name, const json::array& array) {
  std::vector<TokenId> ids;
  ids.reserve(array.size());
  for (const json::value& value : array) {
    if (!value.is_number()) return wrong_type(name, "made of token ids", value);
    const auto id = as_count(value);
    if (!id || *id > std::numeric_limits<TokenId>::max())
      return refuse(name, fmt::format("{} holds a number that is no token id", name));
    ids.push_back(static_cast<TokenId>(*id));
  }
  return ids;
}

std::string_view text_at(const json::object& object, std::string_view name) {
  const json::string* text = at(object, name).if_string();
  return text ? view(*text) : std::string_view();
}

std::string_view view(const json::string& text) { return {text.data(), text.size()}; }

Json to_data(const json::value& value) {
  if (value.is_bool()) return {value.get_bool()};
  if (value.is_int64()) return {value.get_int64()};
  if (value.is_number()) return {value.to_number<double>()};
  if (value.is_string()) return {std::string(view(value.get_string()))};
  if (value.is_object()) return to_data(value.get_object());
  if (!value.is_array()) return {};
  Json::List items;
  for (const json::value& item : value.get_array()) items.push_back(to_data(item));
  return {std::move(items)};
}

Json to_data(const json::object& object) {
  Json::Fields fields;
  for (const auto& item : object) fields.push_back({item.key(), to_data(item.value())});
  return {std::move(fields)};
}

std::string_view kind_name(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return "a boolean";
    case json::kind::string:
      return "a string";
    case json::kind::array:
      return "an array";
    case json::kind::object:
      return "an object";
    default:
      return "a number";
  }
}

std::unexpected<Error> refuse(std::string_view param, std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message), std::string(param));
}

std::unexpected<Error> unsupported(std::string_view param) {
  return fail(ErrorCode::kUnsupported, fmt::format("{} is not supported", param),
              std::string(param));
}

std::unexpected<Error> wrong_type(std::string_view name, std::string_view expected,
                                  const json::value& value) {
  return refuse(name, fmt::format("{} must be {}, not {}", name, expected, kind_name(value)));
}

}  // namespace kvik
