#pragma once

#include <boost/json/array.hpp>
#include <span>

#include "service/service_api.h"

namespace kvik {

// Whose pages a prompt was looked up among, as seen by the one who asks.
enum class CacheReach {
  kEverybody,  // there are no keys: all callers trust each other
  kOwnSalt,    // those who share the salt of the caller's key
  kStrangers,  // any tenant's of the server
};

// What the cache did for each prompt of an answer:
//   {"prompt_tokens", "cached_tokens": {"ram", "tiers"}, "computed_tokens",
//    "miss": null | {"reason", "position", "expected_token", "got_token"}}
// Among strangers' pages the token that the known sequence went on with stays unsaid: it is another
// tenant's text, and asking again and again would read all of it out. What other salts know is
// never told.
boost::json::array explanation_json(std::span<const Usage> usages, CacheReach reach);

}  // namespace kvik
