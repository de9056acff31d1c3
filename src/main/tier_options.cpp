#include "main/tier_options.h"

#include <cstdlib>

#include "kv/tiers/disk_tier.h"
#include "kv/tiers/folder_tier.h"
#include "kv/tiers/redis_tier.h"

namespace kvik {

void TierOptions::add_to(Flags& flags) {
  flags.add({
      Flag("--disk", as_path(disk),
           "keep K and V in this folder too: found again after a restart (default: off)")
          .called("DIR"),
      {"--disk-size", as_bytes(disk_bytes),
       "what the folder may hold; the least recently used goes first (default: 20GiB)"},
      Flag(
          "--shared", &shared,
          "share K and V with other servers through a folder that all of them mount (default: off)")
          .called("DIR"),
      {"--shared-size", as_bytes(shared_bytes),
       "what the shared folder may hold, for all servers together (default: 100GiB)"},
      Flag("--redis", &redis,
           "share K and V with other servers through a Redis: redis://HOST[:PORT][/DATABASE], "
           "rediss://… "
           "or unix:///PATH; the password may stand in KVIK_REDIS_PASSWORD (default: off)")
          .called("URL"),
  });
}

Result<OpenTiers> TierOptions::open() const {
  OpenTiers tiers;
  if (!disk.empty()) {
    TRY_ASSIGN(auto tier, DiskTier::open({.folder = disk, .max_bytes = disk_bytes}));
    tiers.add(TierKind::kDisk, std::move(tier));
  }
  if (!shared.empty()) {
    tiers.add(TierKind::kSharedFolder, std::make_unique<FolderTier>(FolderTierOptions{
                                           .folder = shared, .max_bytes = shared_bytes}));
  }
  if (!redis.empty()) {
    TRY_ASSIGN(RedisAddress address, parse_redis_address(redis));
    const char* password = std::getenv("KVIK_REDIS_PASSWORD");
    if (password != nullptr && address.password.empty()) address.password = password;
    tiers.add(TierKind::kRedis,
              std::make_unique<RedisTier>(RedisTierOptions{.address = std::move(address)}));
  }
  return tiers;
}

}  // namespace kvik
