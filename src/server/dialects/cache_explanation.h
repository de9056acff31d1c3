#pragma once

#include <boost/json/array.hpp>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "service/service_api.h"

namespace kvik {

// Whose pages a prompt was looked up among, as seen by the one who asks.
enum class CacheReach {
  kEverybody,  // there are no keys: all callers trust each other
  kOwnSalt,    // those who share the salt of the caller's key
  kStrangers,  // any tenant's of the server
};

// The words of a prompt around one of its tokens, UTF-8.
struct TextAround {
  std::string before;
  std::string behind;  // the token's own come first
};
// Those of the prompt with that number; nullopt where they are not known.
using FindText = std::function<std::optional<TextAround>(size_t prompt, uint32_t position)>;

// Whether what stands there is a part of a date or of a time of day: what spoils most prompts.
bool is_in_date(const TextAround& text);

// What the cache did for each prompt of an answer:
//   {"prompt_tokens", "cached_tokens": {"ram", "tiers"}, "computed_tokens",
//    "miss": null | {"reason", "position", "expected_token", "got_token",
//                    "text": {"before", "behind"}, "looks_like": "date"}}
// Among strangers' pages the token that the known sequence went on with stays unsaid: it is another
// tenant's text, and asking again and again would read all of it out. What other salts know is
// never told.
boost::json::array explanation_json(std::span<const Usage> usages, CacheReach reach,
                                    const FindText& find_text = {});

}  // namespace kvik
