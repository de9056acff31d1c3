#include "server/http/auth.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/keyed_hash.h"

namespace kvik {
namespace {

bool is_prefix_of_any_case(std::string_view lower, std::string_view text) {
  if (text.size() < lower.size()) return false;
  for (size_t i = 0; i < lower.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) | 0x20u) != static_cast<unsigned char>(lower[i]))
      return false;
  return true;
}

std::optional<std::string_view> presented_key(const HttpRequest& request) {
  if (const auto key = request.header("x-api-key")) return key;
  const auto authorization = request.header("authorization");
  // "bearer" and a space; the scheme is case-insensitive (RFC 9110, 11.1).
  constexpr std::string_view kScheme = "bearer ";
  if (!authorization || !is_prefix_of_any_case(kScheme, *authorization)) return std::nullopt;
  std::string_view key = authorization->substr(kScheme.size());
  key.remove_prefix(std::min(key.find_first_not_of(' '), key.size()));
  return key;
}

// volatile prevents the compiler from ending the loop early.
bool equals_in_constant_time(std::string_view presented, std::string_view key) {
  if (key.empty()) return false;
  volatile uint8_t difference = presented.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < presented.size(); ++i) {
    const auto a = static_cast<uint8_t>(presented[i]);
    const auto b = static_cast<uint8_t>(key[i % key.size()]);
    difference = difference | (a ^ b);
  }
  return difference == 0;
}

}  // namespace

const ApiKey* find_key(const HttpRequest& request, std::span<const ApiKey> keys) {
  const auto presented = presented_key(request);
  if (!presented) return nullptr;
  // all are compared, so that the time does not reveal which one matched
  const ApiKey* found = nullptr;
  for (const ApiKey& key : keys)
    if (equals_in_constant_time(*presented, key.secret)) found = &key;
  return found;
}

const ApiKey* find_key(const HttpRequest& request, const ServerOptions& options) {
  return options.api_keys ? find_key(request, *options.api_keys) : nullptr;
}

// The lengths prevent two pairs of texts from giving the same salt.
std::string salt_of(const ApiKey& key, std::string_view requested) {
  if (key.cache_salt.empty() && requested.empty()) return "";
  return fmt::format("{}:{}:{}", key.cache_salt.size(), key.cache_salt, requested);
}

std::string owner_id(const ServerOptions& options, const ApiKey* key, std::string_view requested) {
  static constexpr std::string_view kPurpose = "kvik owner";
  if (!key) return std::string(as_text(keyed_hash("", {kPurpose, requested})));
  const auto first = std::ranges::find(*options.api_keys, key->name, &ApiKey::name);
  return std::string(
      as_text(keyed_hash(first->secret, {kPurpose, key->name, salt_of(*key, requested)})));
}

Request::PriorityScope ranks_of(const ApiKey& key) {
  return key.may_outrank ? Request::PriorityScope::kAllTenants : Request::PriorityScope::kOwnTenant;
}

bool is_operator(const HttpRequest& request, const ServerOptions& options) {
  if (!options.api_keys) return true;
  const ApiKey* key = find_key(request, options);
  return key && key->is_operator;
}

}  // namespace kvik
