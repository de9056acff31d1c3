#pragma once

#include "base/result.h"
#include "tier/prefix_file/prefix_file.h"
#include "tier/tier.h"

namespace kvik {

// Checks all of a file, then stores its pages in a tier, where every tenant of the empty salt hits
// them, and checks that the tier has them. Pages that it had already are kept. Needs memory for a
// few pages. Errors: those of the reader, before anything is stored; kExhausted if the tier has no
// room; kIo.
Result<void> import_prefix(PrefixFileReader& file, Tier& tier);

}  // namespace kvik
