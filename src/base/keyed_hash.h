#pragma once

#include <initializer_list>
#include <string_view>

#include "base/hash.h"

namespace kvik {

// Returns the HMAC-SHA-256 of several texts, each preceded by its length, so that different lists
// never give the same input. Without the key, the hash can neither be computed nor used to confirm
// a suspected text.
Sha256Digest keyed_hash(std::string_view key, std::initializer_list<std::string_view> texts);

// Returns the bytes of a digest as text, to be hashed or compared.
std::string_view as_text(const Sha256Digest& digest);

}  // namespace kvik
