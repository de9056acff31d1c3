#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/token_id.h"

namespace kvik {

// Names the contents of a page: its tokens and all that stand before them, model and salt included.
// The same in every process. A key is no proof: a hit compares the token ids too.
struct PageKey {
  std::array<std::byte, 32> bytes{};

  friend bool operator==(const PageKey&, const PageKey&) = default;
};

struct PageKeyHash {
  size_t operator()(const PageKey& key) const {
    size_t word = 0;  // of a SHA-256: as good as any hash of it
    std::memcpy(&word, key.bytes.data(), sizeof(word));
    return word;
  }
};

// The key above all first pages: SHA-256 of what must be the same for K and V to be the same
// (`identity`: model, KV type) and of the salt that keeps tenants apart; empty for all who share.
PageKey root_key(std::string_view identity, std::string_view salt);

// SHA-256(parent, number of tokens, token ids in little endian).
PageKey child_key(const PageKey& parent, std::span<const TokenId> tokens);

// child_key(); a test may put one in its place whose keys collide.
using KeyFunction = PageKey (*)(const PageKey& parent, std::span<const TokenId> tokens);

}  // namespace kvik
