#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/schedule/tenants.h"
#include "server/server_options.h"

namespace kvik {

// Reads a file of lines "KEY [NAME [SALT]] [operator] [priority]". Blank lines and lines that begin
// with # are left out. A key without a name is a tenant of its own: "key-" and its number in the
// file. The two last words are marks wherever they stand behind the key, and no names or salts.
// Errors: kIo; kInvalidArgument (no key, a line of too many words, a key given twice, a name of
// control characters or more than 128 bytes). None of them quotes the file.
Result<std::vector<ApiKey>> read_api_keys(const std::string& path);

// Adds the keys of --api-key, each an operator's and a tenant of its own: "key-" and its number.
// Errors: kInvalidArgument (a key that is empty, holds blanks or control characters, or is given
// twice). None of them quotes a key.
Result<void> add_api_keys(std::span<const std::string> secrets, std::vector<ApiKey>& keys);

// The names in the file, each with the word that marks its pages: HMAC-SHA-256 of the name under
// the first key of that name. Who reads a tier cannot tell whose pages they are without the file;
// servers with the same file know them as each other's.
TenantMarks tenant_marks(std::span<const ApiKey> keys);

// Seals the marks of pages in tiers that other machines write: servers with the same file have the
// same one, which depends on its first key. Empty where there are no keys.
std::string mark_key_of(std::span<const ApiKey> keys);

// From now on no key finds pages of another name: each has a salt that is its own.
void part_tenants(std::span<ApiKey> keys);

}  // namespace kvik
