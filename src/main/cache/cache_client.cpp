#include "main/cache/cache_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "main/serve/api_keys.h"
#include "server/http/auth.h"

namespace kvik {

void CacheClientFlags::add_to(Flags& flags) {
  flags.add("Client",
            {
                Flag("--client", &client,
                     "name of an API key whose pages these are, as in --api-key-file (default: "
                     "pages of requests without salt)")
                    .called("NAME"),
                Flag("--api-key-file", as_path(api_key_file),
                     "the file of API keys of kvik serve, for --client")
                    .called("FILE"),
                Flag("--share", &share, "--share of kvik serve, for --client (default: two)")
                    .one_of({"two", "all", "key"}),
                Flag("--cache-salt", &cache_salt, "cache_salt of the requests (default: none)")
                    .called("TEXT"),
            });
}

Result<CacheClient> CacheClientFlags::resolve() const {
  if (client.empty() != api_key_file.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                client.empty()
                    ? "--api-key-file names no client: give --client NAME too"
                    : fmt::format("--client {} needs --api-key-file, which has its key", client));
  }
  if (client.empty()) {
    if (share.empty() || share == "all") return CacheClient{.salt = cache_salt};
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--share {} needs --client and --api-key-file", share));
  }
  TRY_ASSIGN(std::vector<ApiKey> keys, read_api_keys(api_key_file));
  const TenantMarks marks = tenant_marks(keys);
  const auto mark = marks.find(client);
  const SharingMark own = mark_of_tenant(mark == marks.end() ? 0 : mark->second);
  if (share == "key") isolate_tenants(keys);
  const auto key = std::ranges::find(keys, client, &ApiKey::name);
  if (key == keys.end()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("no key in '{}' is named '{}'", api_key_file, client));
  }
  const auto differs = [&](const ApiKey& other) {
    return other.name == client && other.cache_salt != key->cache_salt;
  };
  if (std::ranges::any_of(keys, differs)) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("the keys of '{}' in '{}' have different salts, expected one", client,
                            api_key_file));
  }
  const bool is_shared = share == "all" || share == "key";  // with the salt alone
  return CacheClient{.salt = salt_of(*key, cache_salt),
                     .known = is_shared ? SharingMark::kAll : own};
}

}  // namespace kvik
