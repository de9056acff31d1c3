#pragma once

#include <span>
#include <string>
#include <string_view>

#include "server/http/http_message.h"
#include "server/server_options.h"
#include "service/service_api.h"

namespace kvik {

// The key that the request carries, as "Authorization: Bearer KEY" or "x-api-key: KEY"; null where
// it is none of `keys`. The time it takes depends on the lengths of the keys and of what was
// presented, never on where they differ.
const ApiKey* find_key(const HttpRequest& request, std::span<const ApiKey> keys);
// Null too where the server has no keys.
const ApiKey* find_key(const HttpRequest& request, const ServerOptions& options);

// The salt of the pages that this key's request may find, given the one that the body asks for. No
// body can name its way into the pages of a key's salt.
std::string salt_of(const ApiKey& key, std::string_view requested);

// Identifies the owner of what is kept for a caller: HMAC-SHA-256 of the name and the salts under
// the first key of that name, so that neither a new first key nor another salt finds what was kept
// before. A null key is a caller of a server without keys.
std::string owner_id(const ServerOptions& options, const ApiKey* key, std::string_view requested);

// What the priorities of this key's requests are compared with.
Request::Ranks ranks_of(const ApiKey& key);

// Whether the request sees what concerns all: there are no keys, or its key is an operator's.
bool is_operator(const HttpRequest& request, const ServerOptions& options);

}  // namespace kvik
