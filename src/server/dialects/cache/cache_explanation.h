#pragma once

#include <boost/json/array.hpp>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/dialects/cache/changing_part.h"
#include "service/service_api.h"

namespace kvik {

// The tenants whose pages a prompt could hit, from the client's point of view.
enum class CacheReach {
  kAllClients,    // no API keys: all clients trust each other
  kOwnSalt,       // tenants with the same salt
  kOtherTenants,  // all tenants of the server
};

// Returns the text around a position of a prompt; std::nullopt if it is not known.
using FindText = std::function<std::optional<TextAround>(size_t prompt, uint32_t position)>;

// Returns the cache explanation of each prompt of an answer:
//   {"prompt_tokens", "cached_tokens": {"ram", "tiers"}, "computed_tokens", "restored_tokens",
//    "miss": null | {"reason", "position", "expected_token", "got_token", "says",
//                    "text": {"before", "behind"}, "looks_like"}}   (changing_part())
// If other tenants' pages can be hit, the expected token is not reported: it is another tenant's
// text, and repeated requests would reveal all of it. Pages of other salts are never reported.
boost::json::array explanation_json(std::span<const Usage> usages, CacheReach reach,
                                    const FindText& find_text = {});

}  // namespace kvik
