#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "base/check.h"
#include "tensor/kv_type.h"
#include "tier/aligned_bytes.h"
#include "tier/disk_tier.h"

namespace kvik {

// A page whose bytes are derived from its key, so that a reader can check them.
struct StoredPage {
  TierPage page;
  std::vector<std::byte> bytes;
};

inline std::vector<std::byte> bytes_of_page(const TierPage& page, size_t n_bytes) {
  std::vector<std::byte> bytes(n_bytes);
  uint64_t seed = 0;
  std::memcpy(&seed, page.key.bytes.data(), sizeof(seed));
  std::mt19937_64 random(seed + page.group);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// Returns the consecutive pages of one sequence. Its tokens depend on the seed. The last page may
// hold fewer than kPageTokens.
inline std::vector<StoredPage> chain_of_pages(const PageKey& root, uint32_t n_tokens, uint32_t seed,
                                              size_t n_bytes) {
  std::mt19937 random(seed);
  std::vector<StoredPage> pages;
  PageKey parent = root;
  for (uint32_t at = 0; at < n_tokens; at += kPageTokens) {
    TierPage page{.root = root, .parent = parent, .key = {}, .group = 0, .tokens = {}};
    for (uint32_t i = at; i < std::min(at + kPageTokens, n_tokens); ++i) {
      page.tokens.push_back(random() % 1000);
    }
    page.key = parent = child_key(page.parent, page.tokens);
    auto bytes = bytes_of_page(page, n_bytes);
    pages.push_back({std::move(page), std::move(bytes)});
  }
  return pages;
}

inline AlignedBytes slot_for(const Tier& tier, size_t n_bytes) {
  return {tier.slot_bytes(n_bytes), tier.alignment()};
}

inline Result<void> store(Tier& tier, std::span<const StoredPage> pages) {
  std::vector<AlignedBytes> slots;
  std::vector<Tier::Put> puts;
  for (const StoredPage& page : pages) {
    slots.push_back(slot_for(tier, page.bytes.size()));
    std::ranges::copy(page.bytes, slots.back().span().subspan(tier.head_bytes()).begin());
    puts.push_back({page.page, slots.back().span(), page.bytes.size()});
  }
  return tier.put(puts);
}

// Returns the tier's result for a page. CHECKs the bytes of a page that is found.
inline Tier::Get look_up(Tier& tier, const StoredPage& page,
                         SharingMark reader = SharingMark::kAll) {
  const AlignedBytes slot = slot_for(tier, page.bytes.size());
  TierPage wanted = page.page;
  const Tier::Get got = tier.get(wanted, reader, slot.span(), page.bytes.size());
  if (got == Tier::Get::kFound) {
    const auto bytes = slot.span().subspan(tier.head_bytes(), page.bytes.size());
    CHECK(std::ranges::equal(bytes, page.bytes));
  }
  return got;
}

inline size_t n_found(Tier& tier, std::span<const StoredPage> pages) {
  return static_cast<size_t>(std::ranges::count_if(
      pages, [&](const StoredPage& page) { return look_up(tier, page) == Tier::Get::kFound; }));
}

}  // namespace kvik
