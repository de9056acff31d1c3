#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kv/kv_cache.h"

namespace kvik {

// The reader of pages, or the writer of tokens.
struct CachedPageReader {
  PageKey root;                        // of its own pages
  SharingMark as = SharingMark::kAll;  // its mark: PageStore::mark_of()
};

// Returns true if the reader may see the tokens of the page. A draft changes the time of a step, so
// it would reveal them. The rule is the one of the prefix lookup: the page has the reader's root,
// and its mark lets the reader find it.
bool may_read(const PrefixNode& node, const CachedPageReader& reader);

// A token of a page in the prefix index.
struct CachedTokenPosition {
  const PrefixNode* node = nullptr;
  uint32_t offset = 0;
};

// Maps the last few tokens to the newest page that contains them. There is one slot for each hash,
// so the size is fixed and nothing is ever removed. The tokens of a page are read from the prefix
// index; if the page is gone or holds other tokens now, there is no match. Entries that a reader
// may not see have other hashes, which depend on a secret, so a tenant cannot observe which slots
// others write. Engine thread only.
class CachedNgramIndex {
 public:
  static constexpr uint32_t kGram = 6;  // tokens that are hashed

  explicit CachedNgramIndex(const KvCache& kv);

  // Adds the places of tokens from `first` on, as far as pages of the table hold them. `tokens` are
  // the sequence's tokens from its beginning.
  void add(const PageTable& table, const CachedPageReader& writer, std::span<const TokenId> tokens,
           uint32_t first);

  // Finds the last tokens of a list in a page that the reader may see. Returns the place after them
  // and the number of equal tokens before it, or std::nullopt.
  struct Match {
    CachedTokenPosition next;
    uint32_t n_matched = 0;
  };
  std::optional<Match> find(std::span<const TokenId> tokens, const CachedPageReader& reader) const;

  // Returns the place after `place`. If several pages follow, it is in the one used last. The node
  // is null if the reader may see no further token.
  CachedTokenPosition next_after(const CachedTokenPosition& place,
                                 const CachedPageReader& reader) const;

  static uint64_t n_bytes(uint64_t n_pages);

 private:
  struct Slot {
    uint32_t page = UINT32_MAX;
    uint32_t offset = 0;
  };
  std::optional<Match> match_at(const Slot& slot, std::span<const TokenId> tokens,
                                const CachedPageReader& reader) const;
  size_t slot_of(const CachedPageReader& page_reader, std::span<const TokenId> tokens,
                 size_t end) const;

  const KvCache& kv_;
  std::vector<Slot> slots_;
  uint64_t secret_;
};

}  // namespace kvik
