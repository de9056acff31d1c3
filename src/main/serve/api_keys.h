#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/schedule/tenants.h"
#include "server/server_options.h"

namespace kvik {

// Reads a file of lines "KEY [NAME [SALT]] [operator] [priority]". Blank lines and lines that begin
// with # are ignored. A key without a name is its own tenant, named "key-" and its number in the
// file. The words "operator" and "priority" are attributes at any position after the key; they
// cannot be a name or a salt. Logs a warning if other users can read or write the file. Errors:
// kIo; kInvalidArgument (no keys, a line with too many words, a duplicate key, a name with control
// characters or more than 128 bytes). No error quotes the file.
Result<std::vector<ApiKey>> read_api_keys(const std::string& path);

// Adds the keys of --api-key. Each is an operator key and its own tenant, named "key-" and its
// number. Errors: kInvalidArgument (a key that is empty, longer than 128 bytes, contains blanks or
// control characters, or is a duplicate). No error quotes a key.
Result<void> add_api_keys(std::span<const std::string> secrets, std::vector<ApiKey>& keys);

// Returns each tenant name with the hash that marks its pages: 64 bits of HMAC-SHA-256 of the name
// under the first key with that name. A reader of a tier cannot identify the tenants without the
// key file; servers with the same file compute the same marks.
TenantMarks tenant_marks(std::span<const ApiKey> keys);

// Returns the key that authenticates the page marks in tiers that other machines can write. It is
// derived from the first API key, so servers with the same file have the same one. Empty if there
// are no keys.
std::string mark_key_of(std::span<const ApiKey> keys);

// Isolates the tenants: prepends the tenant's mark to the salt of each key, so no key hits pages of
// another name.
void isolate_tenants(std::span<ApiKey> keys);

}  // namespace kvik
