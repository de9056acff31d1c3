#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file/new_file.h"
#include "base/result.h"
#include "base/token_id.h"
#include "kv/cache_identity.h"
#include "kv/kv_layout.h"
#include "tier/prefix_file/prefix_file.h"
#include "tier/tier.h"

namespace kvik {

// A prefix whose pages a tier has.
struct StoredPrefix {
  const CacheIdentity& identity;
  const KvLayout& layout;
  std::string_view salt = {};  // under which the tier has them
  std::span<const TokenId> tokens;
  // Numbers of tokens, ascending, after which sequences should be able to resume. With sliding
  // windows and recurrent layers, other places have no use for the file.
  std::vector<uint32_t> ends;
};

// Copies the pages of a prefix from a tier to a file: those of the layer groups with full
// attention, those that sliding windows attend to at the ends, and the last snapshot before each
// end. Neither the salt nor their tenants are exported: the keys in the file are those of the empty
// salt. Returns the header that was written; its n_tokens may be
// less than those of the prefix if the tier lacks the partly filled last page. `key` signs the
// file; empty: not signed. Errors: kIo if the tier lacks a page, and those of PrefixFileWriter.
Result<PrefixFileHeader> export_prefix(Tier& tier, const StoredPrefix& prefix, NewFile file,
                                       std::string key);

}  // namespace kvik
