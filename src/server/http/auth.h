#pragma once

#include <span>
#include <string>
#include <string_view>

#include "server/http/http_message.h"
#include "server/server_options.h"
#include "service/service_api.h"

namespace kvik {

// Returns the key of the request, from "Authorization: Bearer KEY" or "x-api-key: KEY"; null if it
// is not one of `keys`. The time depends on the lengths of the keys and of the presented one, never
// on where they differ.
const ApiKey* find_key(const HttpRequest& request, std::span<const ApiKey> keys);
// Also returns null if the server has no keys.
const ApiKey* find_key(const HttpRequest& request, const ServerOptions& options);

// Returns the salt of the pages that this key's request may hit, given the salt of the body. No
// body can select the pages of a key's salt.
std::string salt_of(const ApiKey& key, std::string_view requested);

// Identifies the owner of stored data: HMAC-SHA-256 of the name and the salts under the first key
// of that name, so that neither a new first key nor another salt finds what was stored before. A
// null key is a client of a server without keys.
std::string owner_id(const ServerOptions& options, const ApiKey* key, std::string_view requested);

// Returns the requests with which the priorities of this key are compared.
Request::PriorityScope ranks_of(const ApiKey& key);

// Returns whether the request may see global information: there are no keys, or its key is an
// operator's.
bool is_operator(const HttpRequest& request, const ServerOptions& options);

}  // namespace kvik
