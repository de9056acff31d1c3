#include "server/dialects/key_accounts.h"

#include <algorithm>

#include "base/check.h"

namespace kvik {
namespace {

constexpr std::string_view kNoKey = "none";

}  // namespace

KeyAccounts::KeyAccounts(const std::optional<std::vector<ApiKey>>& keys) {
  if (!keys) accounts_.emplace_back(kNoKey, std::make_shared<KeyAccount>());
  for (const ApiKey& key : keys.value_or(std::vector<ApiKey>()))
    if (std::ranges::count(accounts_, key.name, &Entry::first) == 0)
      accounts_.emplace_back(key.name, std::make_shared<KeyAccount>());
}

std::shared_ptr<KeyAccount> KeyAccounts::of(const ApiKey* key) const {
  const std::string_view name = key ? std::string_view(key->name) : kNoKey;
  const auto found = std::ranges::find(accounts_, name, &Entry::first);
  CHECK(found != accounts_.end());
  return found->second;
}

}  // namespace kvik
