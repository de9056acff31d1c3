#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/token_id.h"

namespace kvik {

// Identifies the contents of a page: its tokens and all tokens before them, including model and
// salt. Equal in all processes. A key proves nothing: a hit also compares the token ids.
struct PageKey {
  std::array<std::byte, 32> bytes{};

  friend bool operator==(const PageKey&, const PageKey&) = default;
};

struct PageKeyHash {
  size_t operator()(const PageKey& key) const {
    size_t word = 0;  // a prefix of a SHA-256 is itself a good hash
    std::memcpy(&word, key.bytes.data(), sizeof(word));
    return word;
  }
};

// Returns the parent key of all first pages: SHA-256 of `identity` (all that K and V depend on,
// such as model and KV type) and of the salt that isolates tenants; an empty salt is shared.
PageKey root_key(std::string_view identity, std::string_view salt);

// Returns SHA-256(parent, number of tokens, token ids in little endian).
PageKey child_key(const PageKey& parent, std::span<const TokenId> tokens);

// Type of child_key(). Tests replace it by a function whose keys collide.
using KeyFunction = PageKey (*)(const PageKey& parent, std::span<const TokenId> tokens);

}  // namespace kvik
