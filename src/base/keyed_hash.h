#pragma once

#include <initializer_list>
#include <string_view>

#include "base/hash.h"

namespace kvik {

// HMAC-SHA-256 of several texts, each after its length, so that no two lists hash the same bytes.
// Without the key it can neither be computed nor used to confirm a suspected
// text.
Sha256Digest keyed_hash(std::string_view key, std::initializer_list<std::string_view> texts);

// The bytes of a digest as a text, to be hashed or compared with others.
std::string_view as_text(const Sha256Digest& digest);

}  // namespace kvik
