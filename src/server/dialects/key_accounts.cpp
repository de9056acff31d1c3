#include "server/dialects/key_accounts.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"

namespace kvik {
namespace {

constexpr std::string_view kNoKey = "none";

}  // namespace

KeyAccounts::KeyAccounts(const std::optional<std::vector<ApiKey>>& keys) {
  std::vector<std::string> names;
  if (!keys) names.emplace_back(kNoKey);
  for (const ApiKey& key : keys.value_or(std::vector<ApiKey>()))
    if (std::ranges::count(names, key.name) == 0) names.push_back(key.name);
  // Equal parts, so that what one key sends has no influence on what another one finds.
  const size_t n_each = kSessionTokens / std::max<size_t>(1, names.size());
  for (std::string& name : names)
    accounts_.emplace_back(std::move(name), std::make_shared<KeyAccount>(n_each));
}

std::shared_ptr<KeyAccount> KeyAccounts::of(const ApiKey* key) const {
  const std::string_view name = key ? std::string_view(key->name) : kNoKey;
  const auto found = std::ranges::find(accounts_, name, &Entry::first);
  CHECK(found != accounts_.end());
  return found->second;
}

}  // namespace kvik
