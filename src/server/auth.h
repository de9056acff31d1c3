#pragma once

#include <string>
#include <vector>

#include "server/http_message.h"

namespace kvik {

// Whether the request carries one of the keys, as "Authorization: Bearer KEY" or "x-api-key: KEY".
// The time it takes depends on the lengths of the keys and of what was presented, never on where
// they differ.
bool is_authorized(const HttpRequest& request, const std::vector<std::string>& keys);

}  // namespace kvik
