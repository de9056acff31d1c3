#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kv/page_key.h"
#include "kv/page_pool.h"
#include "kv/pin.h"
#include "kv/slots/open_page_slots.h"
#include "kv/slots/state_slots.h"
#include "tensor/kv_type.h"

namespace kvik {

// Owner of the pages of a sequence.
struct PageOwner {
  uint64_t tenant = 0;    // hash of the tenant's name; decides who may hit the pages
  std::vector<Pin> pins;  // pins of the sequence's first tokens
  // Name of the adapter that computes K and V, for a PageLog; null: none.
  std::shared_ptr<const std::string> adapter = nullptr;
  // Number of prompt tokens. The prompt is likely to be sent again, so in a cache with open pages
  // its last page is kept together with its open page. 0: it is not kept.
  uint64_t n_prompt = 0;
};

// Page table of one sequence: for each layer group its pages in the order of the tokens, and their
// addresses in an array for the kernels. The first n_sealed() pages are full and may be shared; the
// others are being filled. Pages that slid out of a group's window are released: their lease is
// empty and their address null. Indices count from the first token, so a page keeps its index.
// Filled by KvCache. Movable, not copyable. Engine thread only.
class PageTable {
 public:
  PageTable() : PageTable(1) {}
  explicit PageTable(uint32_t n_groups) : groups_(n_groups) {}

  PageOwner owner;
  // True while a step writes to the sequence and is not committed: its state and open pages may
  // then be half updated, so that no snapshot of them may be taken.
  bool is_in_step = false;

  uint32_t n_groups() const { return static_cast<uint32_t>(groups_.size()); }
  // Number of pages of a group, including those that were released.
  uint32_t n_pages(uint32_t group = 0) const {
    return static_cast<uint32_t>(groups_[group].leases.size());
  }
  // Number of tokens that fit into the table.
  uint64_t n_tokens_max() const { return uint64_t{n_pages()} * kPageTokens; }
  std::span<std::byte* const> addresses(uint32_t group = 0) const {
    return groups_[group].addresses;
  }
  // Number of leading pages that were released or never needed.
  uint32_t n_slid(uint32_t group) const { return groups_[group].n_slid; }
  bool is_empty() const { return groups_[0].leases.empty(); }

  // Number of leading full pages, and the key of the last of them; std::nullopt if there is none.
  uint32_t n_sealed() const { return n_sealed_; }
  const std::optional<PageKey>& last_key() const { return last_key_; }
  // Root key of the sequence: that of the query for which the table was opened.
  const PageKey& root() const { return root_; }
  // Key of the last sealed page, or the root key: the parent key of the next page.
  const PageKey& parent_key() const { return last_key_ ? *last_key_ : root_; }

  // Returns the id of a page that was not released.
  PageId page(uint32_t group, uint32_t index) const { return groups_[group].leases[index].id(); }
  bool holds(uint32_t group, uint32_t index) const {
    const auto& leases = groups_[group].leases;
    return index < leases.size() && leases[index];
  }

  // Recurrent state of the sequence; null if the model has none, or the table has no pages yet.
  std::byte* state() const { return state_ ? state_.data() : nullptr; }
  // Slot of the sequence's open pages; null likewise.
  std::byte* open_pages() const { return open_pages_ ? open_pages_.data() : nullptr; }

  // Releases all pages. Sealed pages can still be hit.
  void clear() {
    is_in_step = false;
    state_ = {};
    open_pages_ = {};
    for (Group& group : groups_) {
      group.leases.clear();
      group.addresses.clear();
      group.n_slid = 0;
    }
    n_sealed_ = 0;
    last_key_.reset();
  }

 private:
  friend class KvCache;
  friend class SnapshotStore;
  struct Group {
    std::vector<PageLease> leases;
    std::vector<std::byte*> addresses;
    uint32_t n_slid = 0;
  };

  void append(uint32_t group, PageLease lease, std::byte* address) {
    groups_[group].leases.push_back(std::move(lease));
    groups_[group].addresses.push_back(address);
  }
  // Replaces a page by another one with the same contents, or appends it.
  void put(uint32_t group, uint32_t index, PageLease lease, std::byte* address) {
    if (index == n_pages(group)) return append(group, std::move(lease), address);
    groups_[group].leases[index] = std::move(lease);
    groups_[group].addresses[index] = address;
  }
  // Releases the first n_pages of a group.
  void slide(uint32_t group, uint32_t n_pages) {
    Group& g = groups_[group];
    for (; g.n_slid < n_pages; ++g.n_slid) {
      if (g.n_slid == g.leases.size()) append(group, {}, nullptr);
      g.leases[g.n_slid] = {};
      g.addresses[g.n_slid] = nullptr;
    }
  }
  // Releases all pages of a group but the first n_pages.
  void cut(uint32_t group, uint32_t n_pages) {
    Group& g = groups_[group];
    if (n_pages >= g.leases.size()) return;
    g.leases.erase(g.leases.begin() + n_pages, g.leases.end());
    g.addresses.resize(n_pages);
    g.n_slid = std::min(g.n_slid, n_pages);
  }
  // Marks page n_sealed() as sealed, with this key.
  void mark_sealed(const PageKey& key) {
    ++n_sealed_;
    last_key_ = key;
  }
  std::vector<Group> groups_;
  StateLease state_;
  OpenPageLease open_pages_;
  uint32_t n_sealed_ = 0;
  PageKey root_;
  std::optional<PageKey> last_key_;
};

}  // namespace kvik
