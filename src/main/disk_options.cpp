#include "main/disk_options.h"

#include "kv/tiers/tier_link.h"

namespace kvik {

void DiskOptions::add_to(Flags& flags) {
  flags.add({
      {.name = "--disk",
       .to = &folder,
       .help = "keep K and V in this folder too: found again after a restart (default: off)",
       .type = "DIR"},
      {.name = "--disk-size",
       .to = as_bytes(max_bytes),
       .help = "what the folder may hold; the least recently used goes first (default: 20GiB)"},
  });
}

Result<std::unique_ptr<DiskTier>> DiskOptions::open() const {
  if (folder.empty()) return std::unique_ptr<DiskTier>();
  return DiskTier::open({.folder = folder, .max_bytes = max_bytes});
}

uint64_t kv_budget_beside(const Tier* tier, const LoadedModel& loaded, KvType type,
                          uint64_t kv_bytes) {
  if (!tier) return kv_bytes;
  const uint64_t page_bytes = loaded.backend->page_bytes(loaded.model->kv_geometry(type));
  return TierLink::budget_for(*tier, page_bytes, kv_bytes);
}

}  // namespace kvik
