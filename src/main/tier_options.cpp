#include "main/tier_options.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "tier/disk_tier.h"
#include "tier/folder_tier.h"
#include "tier/redis_tier.h"

namespace kvik {

void TierOptions::add_to(Flags& flags) {
  flags.add(
      "Cache",
      {
          Flag("--disk", as_path(disk),
               "also store KV pages in this folder, where they survive a restart (default: off)")
              .called("DIR"),
          {"--disk-size", as_bytes(disk_bytes),
           "size limit of the --disk folder; the least recently used pages are evicted (default: "
           "20GiB)"},
          Flag("--disk-write", &disk_write,
               "when pages are written to --disk. sealed: as soon as they are full; exit: when the "
               "server ends, which writes less but loses them in a crash")
              .one_of({"sealed", "exit"})
              .with_default(),
          Flag(
              "--shared", &shared,
              "share KV pages with other servers through a folder that all of them mount (default: "
              "off)")
              .called("DIR"),
          {"--shared-size", as_bytes(shared_bytes),
           "size limit of the --shared folder, for all servers together (default: 100GiB)"},
          Flag("--shared-mode", &shared_mode,
               "permissions of folders created in --shared, in octal; 770 for servers that run as "
               "several users of one group (default: 700)")
              .called("MODE"),
          Flag("--redis", &redis,
               "share KV pages with other servers through Redis: redis://HOST[:PORT][/DATABASE], "
               "rediss://… (TLS) or unix:///PATH; the password is read from KVIK_REDIS_PASSWORD "
               "(default: off)")
              .called("URL"),
      });
}

namespace {

// Parses an octal mode that gives the owner all rights. Errors: kInvalidArgument.
Result<unsigned> mode_of(const std::string& text) {
  constexpr unsigned kOwner = 0700, kMost = 02777;
  unsigned mode = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (is_number && (mode & kOwner) == kOwner && mode <= kMost) return mode;
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("--shared-mode {}: expected a mode in octal from 700 to 2777, with all "
                          "rights for the owner",
                          text));
}

}  // namespace

Result<OpenTiers> TierOptions::open(std::string_view mark_key) const {
  OpenTiers tiers;
  if (!disk.empty()) {
    TRY_ASSIGN(auto tier, DiskTier::open({.folder = disk, .max_bytes = disk_bytes}));
    tiers.add(TierKind::kDisk, std::move(tier),
              disk_write == "exit" ? TierPlace::Save::kAtEnd : TierPlace::Save::kWhenSealed);
  }
  TRY_ASSIGN(const unsigned mode, mode_of(shared_mode));
  if (!shared.empty()) {
    tiers.add(TierKind::kSharedFolder,
              std::make_unique<FolderTier>(FolderTierOptions{.folder = shared,
                                                             .max_bytes = shared_bytes,
                                                             .mode = mode,
                                                             .mark_key = std::string(mark_key)}));
  }
  if (!redis.empty()) {
    TRY_ASSIGN(RedisAddress address, parse_redis_address(redis));
    const char* password = std::getenv("KVIK_REDIS_PASSWORD");
    if (password != nullptr && address.password.empty()) address.password = password;
    tiers.add(TierKind::kRedis,
              std::make_unique<RedisTier>(RedisTierOptions{.address = std::move(address),
                                                           .mark_key = std::string(mark_key)}));
  }
  return tiers;
}

}  // namespace kvik
