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

// Whose pages these are, as far as the cache cares.
struct PageOwner {
  uint64_t tenant = 0;    // a hash: what others may be told of the contents depends on it
  std::vector<Pin> pins;  // of the sequence's first tokens
  // The name of the adapter that makes K and V what they are, for a PageLog; null: none.
  std::shared_ptr<const std::string> adapter = nullptr;
  // Tokens of the prompt, which will likely come again: their last page is kept with its open page
  // where sequences have those. 0: no page is.
  uint64_t n_prompt = 0;
};

// The pages of one sequence, for each layer group in the order of its tokens, with their addresses
// side by side for the kernels: first n_sealed() full ones that others may share, then those being
// filled. Pages of a windowed group that nobody looks at any more are given back: their lease is
// empty and their address null. Filled by KvCache. Engine thread only.
class PageTable {
 public:
  PageTable() : PageTable(1) {}
  explicit PageTable(uint32_t n_groups) : groups_(n_groups) {}

  PageOwner owner;
  // A step writes to it and is not committed yet: the state and the open pages may be halfway
  // between what they were and what they will be, and are not kept.
  bool is_in_step = false;

  uint32_t n_groups() const { return static_cast<uint32_t>(groups_.size()); }
  // Pages of a group, those given back included.
  uint32_t n_pages(uint32_t group = 0) const {
    return static_cast<uint32_t>(groups_[group].leases.size());
  }
  // Tokens that it is long enough for.
  uint64_t n_tokens_max() const { return uint64_t{n_pages()} * kPageTokens; }
  std::span<std::byte* const> addresses(uint32_t group = 0) const {
    return groups_[group].addresses;
  }
  // Pages in front that were given back, or were never needed.
  uint32_t n_slid(uint32_t group) const { return groups_[group].n_slid; }
  bool is_empty() const { return groups_[0].leases.empty(); }

  // Full pages in front, and the key of the last of them; std::nullopt before the first.
  uint32_t n_sealed() const { return n_sealed_; }
  const std::optional<PageKey>& last_key() const { return last_key_; }
  // The key above those of all pages: that of the query which the table was opened for.
  const PageKey& root() const { return root_; }
  // The key that the next page's follows.
  const PageKey& parent_key() const { return last_key_ ? *last_key_ : root_; }

  // Of a page that was not given back.
  PageId page(uint32_t group, uint32_t index) const { return groups_[group].leases[index].id(); }
  bool holds(uint32_t group, uint32_t index) const {
    const auto& leases = groups_[group].leases;
    return index < leases.size() && leases[index];
  }

  // What layers without pages remember of the sequence; null where there are none, or it has no
  // pages yet.
  std::byte* state() const { return state_ ? state_.data() : nullptr; }
  // The slot of the sequence's open pages; null likewise.
  std::byte* open_pages() const { return open_pages_ ? open_pages_.data() : nullptr; }

  // Gives all pages back. What was sealed stays findable.
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
  // Takes another page with the same contents in the place of one, or behind the last.
  void put(uint32_t group, uint32_t index, PageLease lease, std::byte* address) {
    if (index == n_pages(group)) return append(group, std::move(lease), address);
    groups_[group].leases[index] = std::move(lease);
    groups_[group].addresses[index] = address;
  }
  // Gives the first n_pages of a group back.
  void slide(uint32_t group, uint32_t n_pages) {
    Group& g = groups_[group];
    for (; g.n_slid < n_pages; ++g.n_slid) {
      if (g.n_slid == g.leases.size()) append(group, {}, nullptr);
      g.leases[g.n_slid] = {};
      g.addresses[g.n_slid] = nullptr;
    }
  }
  // Gives all but the first n_pages of a group back.
  void cut(uint32_t group, uint32_t n_pages) {
    Group& g = groups_[group];
    if (n_pages >= g.leases.size()) return;
    g.leases.erase(g.leases.begin() + n_pages, g.leases.end());
    g.addresses.resize(n_pages);
    g.n_slid = std::min(g.n_slid, n_pages);
  }
  // Page n_sealed() is full and called `key` from now on.
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
