#pragma once

#include <string_view>

#include "base/result.h"
#include "kv/sharing_mark.h"
#include "tier/prefix_file/prefix_file.h"
#include "tier/tier.h"

namespace kvik {

// The requests that hit imported pages: those with this salt, of the tenant with this mark.
struct ImportTarget {
  std::string_view salt = {};
  SharingMark known = SharingMark::kAll;  // kAll: every tenant
};

// Checks all of a file, then stores its pages in a tier for the target, and checks that the tier
// has them. Pages that it had already are kept. Needs memory for a few pages, and for the keys of
// all. Errors: those of the reader, before anything is stored; kExhausted if the tier has no room;
// kIo.
Result<void> import_prefix(PrefixFileReader& file, Tier& tier, const ImportTarget& target = {});

}  // namespace kvik
