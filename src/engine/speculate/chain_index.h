#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kv/kv_cache.h"

namespace kvik {

// Who asks what was computed, or computed it.
struct ChainReader {
  PageKey root;                // of its own pages
  KnownBy as = KnownBy::kAll;  // KvCache::mark_of()
};

// Whether the reader may be told what the page holds: a guess shows in the time that a step takes.
// As prefixes are found: behind the reader's own root, and known to it.
bool may_read(const PrefixNode& node, const ChainReader& reader);

// A token of a findable page.
struct ChainPlace {
  const PrefixNode* node = nullptr;
  uint32_t offset = 0;
};

// Which findable pages the same few tokens stand in: the newest place of each. One place for each
// hash, so that it takes a fixed memory and nothing is ever taken out: what a page holds is asked
// of the cache, and a page that is gone, or holds other tokens by now, is no match. Places of
// others, which a reader may not be told, have other hashes, by a secret: who writes where shows to
// nobody else. Engine thread only.
class ChainIndex {
 public:
  static constexpr uint32_t kGram = 6;  // tokens

  explicit ChainIndex(const KvCache& kv);

  // Notes the places of tokens from `first` on that pages of the table hold, those of its sequence
  // from the beginning.
  void add(const PageTable& table, const ChainReader& writer, std::span<const TokenId> tokens,
           uint32_t first);

  // The place behind the last tokens of a list in a page that the reader may find, and how many
  // tokens before it are the same; std::nullopt where there is none.
  struct Match {
    ChainPlace next;
    uint32_t n_matched = 0;
  };
  std::optional<Match> find(std::span<const TokenId> tokens, const ChainReader& reader) const;

  // The place behind one: of several, that of the page that was used last. A null node where
  // nothing is known that the reader may find.
  ChainPlace behind(const ChainPlace& place, const ChainReader& reader) const;

  static uint64_t n_bytes(uint64_t n_pages);

 private:
  struct Slot {
    uint32_t page = UINT32_MAX;
    uint32_t offset = 0;
  };
  std::optional<Match> match_at(const Slot& slot, std::span<const TokenId> tokens,
                                const ChainReader& reader) const;
  size_t slot_of(const ChainReader& who, std::span<const TokenId> tokens, size_t end) const;

  const KvCache& kv_;
  std::vector<Slot> slots_;
  uint64_t secret_;
};

}  // namespace kvik
