#include "base/metadata.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <string>
#include <type_traits>
#include <variant>

#include "base/printable.h"

namespace kvik {
namespace {

constexpr std::array<const char*, 10> kKindNames = {"a bool",
                                                    "a signed integer",
                                                    "an unsigned integer",
                                                    "a float",
                                                    "a string",
                                                    "an array of bools",
                                                    "an array of signed integers",
                                                    "an array of unsigned integers",
                                                    "an array of floats",
                                                    "an array of strings"};

// Returns a single value and a comma; nothing for a list.
std::string shown(const Metadata::Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    return fmt::format("\"{}\", ", printable(*text));
  }
  return std::visit(
      [](const auto& single) -> std::string {
        if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(single)>>) {
          return fmt::format("{}, ", single);
        }
        return {};
      },
      value);
}

std::unexpected<Error> wrong_type(std::string_view key, const Metadata::Value& value,
                                  std::string_view expected) {
  return fail(ErrorCode::kCorrupt, fmt::format("metadata key '{}' is {}{}, expected {}", key,
                                               shown(value), kKindNames[value.index()], expected));
}

}  // namespace

bool Metadata::insert(std::string key, Value value, unsigned stored_bits) {
  const auto [at, is_new] = values_.emplace(std::move(key), std::move(value));
  if (is_new && stored_bits > 0) stored_bits_.emplace(at->first, stored_bits);
  return is_new;
}

void Metadata::replace(std::string key, Value value) {
  erase(key);
  insert(std::move(key), std::move(value));
}

void Metadata::erase(std::string_view key) {
  if (const auto at = values_.find(key); at != values_.end()) values_.erase(at);
  if (const auto at = stored_bits_.find(key); at != stored_bits_.end()) stored_bits_.erase(at);
}

unsigned Metadata::stored_bits(std::string_view key) const {
  const auto at = stored_bits_.find(key);
  return at == stored_bits_.end() ? 0 : at->second;
}

const Metadata::Value* Metadata::find(std::string_view key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? nullptr : &it->second;
}

Result<std::optional<uint64_t>> Metadata::get_uint(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return std::optional<uint64_t>();
  if (const auto* u = std::get_if<uint64_t>(value)) return std::optional(*u);
  if (const auto* i = std::get_if<int64_t>(value)) {
    if (*i >= 0) return std::optional(static_cast<uint64_t>(*i));
    return fail(ErrorCode::kCorrupt,
                fmt::format("metadata key '{}' is {}, expected a number ≥ 0", key, *i));
  }
  return wrong_type(key, *value, "an unsigned integer");
}

Result<std::optional<double>> Metadata::get_float(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return std::optional<double>();
  if (const auto* d = std::get_if<double>(value)) return std::optional(*d);
  if (const auto* u = std::get_if<uint64_t>(value)) return std::optional(static_cast<double>(*u));
  if (const auto* i = std::get_if<int64_t>(value)) return std::optional(static_cast<double>(*i));
  return wrong_type(key, *value, "a float");
}

Result<std::optional<bool>> Metadata::get_bool(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return std::optional<bool>();
  if (const auto* b = std::get_if<bool>(value)) return std::optional(*b);
  return wrong_type(key, *value, "a bool");
}

Result<std::optional<std::string>> Metadata::get_string(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return std::optional<std::string>();
  if (const auto* s = std::get_if<std::string>(value)) return std::optional(*s);
  return wrong_type(key, *value, "a string");
}

Result<const std::vector<std::string>*> Metadata::get_strings(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return nullptr;
  if (const auto* a = std::get_if<std::vector<std::string>>(value)) return a;
  return wrong_type(key, *value, "an array of strings");
}

Result<const std::vector<double>*> Metadata::get_floats(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return nullptr;
  if (const auto* a = std::get_if<std::vector<double>>(value)) return a;
  return wrong_type(key, *value, "an array of floats");
}

Result<std::optional<std::vector<int64_t>>> Metadata::get_ints(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return std::optional<std::vector<int64_t>>();
  if (const auto* a = std::get_if<std::vector<int64_t>>(value)) return std::optional(*a);
  if (const auto* a = std::get_if<std::vector<uint64_t>>(value)) {
    for (const uint64_t v : *a) {
      if (v > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return fail(ErrorCode::kCorrupt,
                    fmt::format("metadata key '{}' holds {}, too large for 63 bits", key, v));
      }
    }
    return std::optional(std::vector<int64_t>(a->begin(), a->end()));
  }
  return wrong_type(key, *value, "an array of integers");
}

}  // namespace kvik
