#pragma once

#include <string>

#include "base/result.h"
#include "kv/sharing_mark.h"
#include "main/flags.h"

namespace kvik {

// The requests that hit pages: those with this salt, of the tenant with this mark.
struct CacheClient {
  std::string salt;
  SharingMark known = SharingMark::kAll;  // kAll: every tenant
};

// Flags that name a client of `kvik serve` whose pages a command reads or writes.
struct CacheClientFlags {
  std::string api_key_file;
  std::string client;      // name of its keys; empty: pages of requests without a key's salt
  std::string share;       // empty: two
  std::string cache_salt;  // of the requests' bodies

  void add_to(Flags& flags);

  // Returns the client. Errors: kInvalidArgument, those of read_api_keys().
  Result<CacheClient> resolve() const;
};

}  // namespace kvik
