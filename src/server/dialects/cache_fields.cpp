#include "server/dialects/cache_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <span>

#include "base/printable.h"
#include "service/request_bounds.h"

namespace kvik {
namespace {

namespace json = boost::json;
using std::chrono::seconds;

constexpr seconds kDefaultTtl{5 * 60};  // Anthropic's default

std::unexpected<Error> wrong_ttl(std::string_view name) {
  return refuse(name, fmt::format("{} must be seconds or a text like \"30s\", \"5m\" or \"1h\", at "
                                  "least a second and at most a day",
                                  name));
}

std::optional<uint64_t> seconds_per(std::string_view unit) {
  if (unit == "s") return 1;
  if (unit == "m") return 60;
  if (unit == "h") return 60 * 60;
  return std::nullopt;
}

std::optional<uint64_t> parse_ttl(std::string_view text) {
  uint64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{} || count > RequestBounds::kPinSeconds) return std::nullopt;
  const auto factor = seconds_per(text.substr(static_cast<size_t>(end - text.data())));
  if (!factor) return std::nullopt;
  return count * *factor;
}

Result<seconds> read_ttl(const json::value& value, std::string_view name) {
  std::optional<uint64_t> ttl;
  if (value.is_string())
    ttl = parse_ttl(view(value.get_string()));
  else
    ttl = as_count(value);
  if (!ttl || *ttl == 0 || *ttl > RequestBounds::kPinSeconds) return wrong_ttl(name);
  return seconds(*ttl);
}

// Rejects unknown members, because they would be options that are silently ignored. `name` is the
// object's name in errors.
Result<void> check_members(const json::object& object, std::string_view name,
                           std::span<const std::string_view> known) {
  for (const auto& member : object) {
    if (std::ranges::find(known, std::string_view(member.key())) != known.end()) continue;
    const std::string param = fmt::format("{}.{}", name, printable(member.key()));
    return refuse(
        param, fmt::format("{} is not known, expected one of: {}", param, fmt::join(known, ", ")));
  }
  return {};
}

Result<std::optional<seconds>> read_pin(const JsonFields& fields) {
  TRY_ASSIGN(const auto own, fields.object("kvik"));
  if (!own) return std::optional<seconds>();
  constexpr std::string_view kOwn[] = {"attest",          "explain_cache",   "pin",
                                       "restore_answers", "schema_language", "whitespace"};
  TRY(check_members(own->all(), "kvik", kOwn));
  TRY_ASSIGN(const auto pin, own->object("pin"));
  if (!pin) return std::optional<seconds>();
  constexpr std::string_view kOfPin[] = {"ttl"};
  TRY(check_members(pin->all(), "kvik.pin", kOfPin));
  const json::value* value = pin->find("ttl");
  if (!value) return wrong_ttl("kvik.pin.ttl");
  TRY_ASSIGN(const seconds ttl, read_ttl(*value, "kvik.pin.ttl"));
  return std::optional<seconds>(ttl);
}

}  // namespace

Result<std::optional<seconds>> read_cache_control(const JsonFields& fields) {
  TRY_ASSIGN(const auto control, fields.object("cache_control"));
  if (!control) return std::optional<seconds>();
  TRY_ASSIGN(const auto type, control->string("type"));
  if (type != "ephemeral")
    return refuse("cache_control.type", "cache_control.type must be \"ephemeral\"");
  const json::value* value = control->find("ttl");
  if (!value) return std::optional<seconds>(kDefaultTtl);
  TRY_ASSIGN(const seconds ttl, read_ttl(*value, "cache_control.ttl"));
  return std::optional<seconds>(ttl);
}

Result<void> read_cache_fields(const JsonFields& fields, CompletionRequest& request) {
  TRY_ASSIGN(const auto salt, fields.string("cache_salt"));
  request.engine.cache_salt = salt.value_or("");
  TRY_ASSIGN(const auto priority, fields.integer("priority"));
  request.engine.priority = priority.value_or(0);
  TRY(fields.string("prompt_cache_key"));
  TRY_ASSIGN(const auto pin, read_pin(fields));
  TRY_ASSIGN(const auto control, read_cache_control(fields));
  request.pin_ttl = std::max(pin, control);
  return {};
}

Result<void> read_user(const JsonFields& fields, std::string_view name,
                       CompletionRequest& request) {
  TRY_ASSIGN(const auto user, fields.string(name));
  request.engine.tenant = user.value_or("");
  if (request.engine.tenant.size() <= RequestBounds::kTenantBytes) return {};
  return refuse("user", fmt::format("user has {} bytes, at most {} are allowed",
                                    request.engine.tenant.size(), RequestBounds::kTenantBytes));
}

namespace {

// Reads a flag of the object "kvik".
Result<bool> own_flag(const JsonFields& fields, std::string_view name, bool otherwise) {
  TRY_ASSIGN(const auto own, fields.object("kvik"));
  if (!own) return otherwise;
  TRY_ASSIGN(const auto flag, own->flag(name));
  return flag.value_or(otherwise);
}

}  // namespace

Result<bool> restores_answers(const JsonFields& fields) {
  return own_flag(fields, "restore_answers", true);
}

Result<bool> wants_cache_explained(const JsonFields& fields) {
  return own_flag(fields, "explain_cache", false);
}

Result<bool> wants_attestation(const JsonFields& fields) {
  return own_flag(fields, "attest", false);
}

}  // namespace kvik
