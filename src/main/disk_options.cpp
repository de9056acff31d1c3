#include "main/disk_options.h"

#include "kv/tiers/disk_tier.h"

namespace kvik {

void DiskOptions::add_to(Flags& flags) {
  flags.add({
      Flag("--disk", &folder,
           "keep K and V in this folder too: found again after a restart (default: off)")
          .called("DIR"),
      {"--disk-size", as_bytes(max_bytes),
       "what the folder may hold; the least recently used goes first (default: 20GiB)"},
  });
}

Result<std::unique_ptr<Tier>> DiskOptions::open() const {
  if (folder.empty()) return std::unique_ptr<Tier>();
  return DiskTier::open({.folder = folder, .max_bytes = max_bytes});
}

}  // namespace kvik
