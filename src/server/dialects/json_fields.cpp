#include "server/dialects/json_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>

#include "service/request_bounds.h"

namespace kvik {
namespace json = boost::json;

namespace {

// Larger doubles do not represent every integer.
constexpr double kMaxExact = 9007199254740992.0;

std::string written_number(const json::value& number) {
  if (number.is_int64()) return fmt::format("{}", number.get_int64());
  if (number.is_uint64()) return fmt::format("{}", number.get_uint64());
  return fmt::format("{}", number.get_double());
}

}  // namespace

const json::value& at(const json::object& object, std::string_view name) {
  static const json::value null;
  const json::value* value = object.if_contains(name);
  return value ? *value : null;
}

std::unexpected<Error> JsonFields::wrong_type(std::string_view name, Type expected) const {
  constexpr std::string_view kTypes[] = {"true or false", "a string", "an array", "an object"};
  return kvik::wrong_type(path_of(name), kTypes[static_cast<size_t>(expected)], *find(name));
}

Result<std::optional<JsonFields>> JsonFields::object(std::string_view name) const {
  TRY_ASSIGN(const json::object* object, object_at(name));
  if (!object) return std::optional<JsonFields>();
  return std::optional(JsonFields(*object, path_of(name)));
}

Result<std::optional<std::string>> JsonFields::string(std::string_view name) const {
  TRY_ASSIGN(auto found, text(name));
  if (found && found->size() > RequestBounds::kFieldBytes) {
    return refuse(path_of(name),
                  fmt::format("{} has {} bytes, at most {} are allowed", path_of(name),
                              found->size(), RequestBounds::kFieldBytes));
  }
  return found;
}

Result<std::optional<float>> JsonFields::number(std::string_view name) const {
  const json::value* value = find(name);
  if (!value) return std::optional<float>();
  if (!value->is_number()) return kvik::wrong_type(path_of(name), "a number", *value);
  const auto wide = as_finite(*value);
  if (!wide || std::abs(*wide) > std::numeric_limits<float>::max())
    return refuse(path_of(name), fmt::format("{} is {}, expected a number that a float can hold",
                                             path_of(name), written_number(*value)));
  return std::optional<float>(static_cast<float>(*wide));
}

Result<std::optional<uint64_t>> JsonFields::count_up_to(std::string_view name,
                                                        uint64_t limit) const {
  const json::value* value = find(name);
  if (!value) return std::optional<uint64_t>();
  if (!value->is_number()) return kvik::wrong_type(path_of(name), "an integer", *value);
  const auto count = as_count(*value);
  if (!count || *count > limit)
    return refuse(path_of(name), fmt::format("{} is {}, expected an integer from 0 to {}",
                                             path_of(name), written_number(*value), limit));
  return count;
}

Result<std::optional<int32_t>> JsonFields::integer(std::string_view name) const {
  const json::value* value = find(name);
  if (!value) return std::optional<int32_t>();
  if (!value->is_number()) return kvik::wrong_type(path_of(name), "an integer", *value);
  const auto wide = as_finite(*value);
  using Limits = std::numeric_limits<int32_t>;
  if (!wide || *wide != std::floor(*wide) || *wide < Limits::min() || *wide > Limits::max())
    return refuse(path_of(name),
                  fmt::format("{} is {}, expected an integer from {} to {}", path_of(name),
                              written_number(*value), Limits::min(), Limits::max()));
  return std::optional<int32_t>(static_cast<int32_t>(*wide));
}

bool is_below(const JsonFields& fields, std::string_view name, double least) {
  const json::value* value = fields.find(name);
  const auto number = value && value->is_number() ? as_finite(*value) : std::nullopt;
  return number && *number < least && *number == std::floor(*number);
}

std::optional<uint64_t> as_count(const json::value& value) {
  if (value.is_uint64()) return value.get_uint64();
  if (value.is_int64() && value.get_int64() >= 0) return static_cast<uint64_t>(value.get_int64());
  if (!value.is_double()) return std::nullopt;
  const double number = value.get_double();  // accepts 16.0 for 16
  if (!(number >= 0 && number <= kMaxExact) || number != std::floor(number)) return std::nullopt;
  return static_cast<uint64_t>(number);
}

std::optional<double> as_finite(const json::value& value) {
  if (value.is_int64()) return static_cast<double>(value.get_int64());
  if (value.is_uint64()) return static_cast<double>(value.get_uint64());
  if (!value.is_double() || !std::isfinite(value.get_double())) return std::nullopt;
  return value.get_double();
}

Result<TokenId> read_token_id(std::string_view name, const json::value& value) {
  if (!value.is_number()) return wrong_type(name, "made of token ids", value);
  const auto id = as_count(value);
  if (!id || *id > std::numeric_limits<TokenId>::max())
    return refuse(name, fmt::format("{} has a number that is not a token id", name));
  return static_cast<TokenId>(*id);
}

Result<std::vector<TokenId>> read_token_ids(std::string_view name, const json::array& array) {
  std::vector<TokenId> ids;
  ids.reserve(array.size());
  for (const json::value& value : array) {
    TRY_ASSIGN(const TokenId id, read_token_id(name, value));
    ids.push_back(id);
  }
  return ids;
}

std::string_view text_at(const json::object& object, std::string_view name) {
  const json::string* text = at(object, name).if_string();
  return text ? view(*text) : std::string_view();
}

std::string_view view(const json::string& text) { return {text.data(), text.size()}; }

Json owned_json(const json::value& value) {
  if (value.is_bool()) return {value.get_bool()};
  if (value.is_int64()) return {value.get_int64()};
  if (value.is_number()) return {value.to_number<double>()};
  if (value.is_string()) return {std::string(view(value.get_string()))};
  if (value.is_object()) return owned_json(value.get_object());
  if (!value.is_array()) return {};
  Json::List items;
  for (const json::value& item : value.get_array()) items.push_back(owned_json(item));
  return {std::move(items)};
}

Json owned_json(const json::object& object) {
  Json::Fields fields;
  for (const auto& item : object) fields.push_back({item.key(), owned_json(item.value())});
  return {std::move(fields)};
}

Json read_arguments(std::string_view text) {
  constexpr size_t kMaxDepth = 64;
  auto parsed = parse_json(
      text, {.max_bytes = text.size(), .max_values = text.size(), .max_depth = kMaxDepth});
  return parsed && parsed->is(Json::Kind::kObject) ? std::move(*parsed) : Json{std::string(text)};
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
