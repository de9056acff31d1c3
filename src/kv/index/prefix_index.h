#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/token_id.h"
#include "kv/cache_report.h"
#include "kv/group_rule.h"
#include "kv/index/evicted_record.h"
#include "kv/index/pin_table.h"
#include "kv/index/prefix_node.h"
#include "kv/page_key.h"
#include "kv/page_pool.h"
#include "kv/sharing_mark.h"
#include "tensor/kv_type.h"

namespace kvik {

// Maps tokens to the pages that hold their K and V: a forest of nodes, each a child of the node
// with the tokens before its own, found by comparing tokens. Only readers that may know a node
// (SharingMark) find it. The pages of a node are added and evicted one by one:
//   - with full attention, a node has a page only while its parent has one,
//   - a windowed group may have any pages: a prefix of n tokens needs those that cover the window
//     before the token after n.
// A node without pages and children is deleted. Knows no page contents. Engine thread only.
class PrefixIndex {
 public:
  // Creates an index for pages 0 … n_pages - 1 of groups with these rules. `resume` says where a
  // prefix can be resumed: anywhere; in recurrent models only where there is a snapshot of the
  // state; with open pages at the end of a page, or inside a page that has a snapshot. The last
  // n_reserved pages are used for snapshots only.
  enum class Resume : uint8_t { kAnywhere, kAtSnapshots, kAtOpenPages };
  PrefixIndex(uint32_t n_pages, std::vector<GroupRule> rules, KeyFunction key_of = child_key,
              Resume resume = Resume::kAnywhere, uint32_t n_reserved = 0);

  // The longest prefix of a list of tokens whose pages are cached in all groups as far as needed.
  // Its nodes stay valid until n_changes() changes. An example in a recurrent model:
  //   tokens:  |--- n_tokens() ---|                      up to the last snapshot
  //            |-------- n_known --------|               pages are cached, but no snapshot here
  //            |------------- the prompt ----------------------|
  struct Match {
    // Last node of the longest chain of nodes whose tokens all match; null if there is none.
    const PrefixNode* last = nullptr;
    uint32_t n_whole = 0;              // number of nodes in that chain
    const PrefixNode* head = nullptr;  // a child of `last` whose first n_head tokens match too
    uint32_t n_head = 0;
    const PrefixNode* snapshot = nullptr;  // node with the snapshot, if one is needed
    uint32_t n_known = 0;  // tokens whose pages are cached, with or without a snapshot
    MissReason miss = MissReason::kNone;  // reason why the match ends here
    // Number of tokens after the match that agree with those of a cached page inside which the
    // sequence cannot resume (Resume::kAtOpenPages).
    uint32_t n_uncached_match = 0;
    // For kDiverged, if all tenants share pages: the token with which this tenant's own sequence
    // continues.
    std::optional<TokenId> expected;

    uint32_t n_tokens() const { return n_whole * kPageTokens + n_head; }
  };
  Match find(const PageKey& root, std::span<const TokenId> tokens, const PageReader& reader) const;

  // Number of pages added, evicted, or made visible to all tenants. While it is unchanged, a search
  // has the same result.
  uint64_t n_changes() const { return n_changes_; }

  // Returns the child of `parent` (which may be the root) with these kPageTokens tokens; null if
  // the reader finds none.
  const PrefixNode* find_child(const PageKey& root, const PageKey& parent,
                               std::span<const TokenId> tokens, SharingMark reader) const;

  // Returns the sharing mark of these tokens after `parent`, for all readers alike. Used for
  // decisions about work, never for answers.
  SharingMark mark_for(const PageKey& root, const PageKey& parent,
                       std::span<const TokenId> tokens) const;

  // Appends to `out` up to n_max tokens with which cached sequences that the reader finds continue
  // `tokens`, which are fewer than kPageTokens and follow `parent` directly. If there are several
  // sequences, takes the one used last.
  void append_continuation(const PageKey& root, const PageKey& parent,
                           std::span<const TokenId> tokens, SharingMark reader, size_t n_max,
                           std::vector<TokenId>& out) const;

  // Tokens that follow `parent`, and the pages that hold them. A group without a page has
  // std::nullopt.
  struct TokenPages {
    PageKey root;
    PageKey parent;  // may be the root
    std::span<const TokenId> tokens;
    std::span<const std::optional<PageId>> pages;
    uint64_t tenant = 0;
    SharingMark known = SharingMark::kAll;
    std::shared_ptr<const std::string> adapter = nullptr;  // PageOwner::adapter
  };
  // Adds pages to the index where their tokens are not cached in their group yet, neither in a node
  // of their own nor as the beginning of another that the same reader finds. Returns the node that
  // now holds the tokens; where one of its pages is not the given one, that page was there before.
  // If one tenant knew the node and another computed the same tokens, all tenants find it from now
  // on, and its pages rank as new, so that earlier use by one tenant cannot be observed. Returns
  // null if the key collides with other tokens, or the parent was evicted meanwhile. New pages are
  // in use.
  const PrefixNode* insert(const TokenPages& entry);

  // Adds a snapshot of the state after an entry, which may be empty: then after `parent`.
  // Returns null if the entry cannot be added or has a snapshot already; otherwise the pages
  // belong to the node, and the first one is in use.
  const PrefixNode* attach(const TokenPages& entry, std::span<const PageId> snapshot,
                           SnapshotKind kind, EvictionRank eviction_rank);
  // Marks a snapshot as outdated by a later one: it is evicted first. Snapshots at a branch stay.
  void outdate_snapshot(const PageKey& key);
  // Returns the node of an entry if it has a snapshot already, which the entry's tenant
  // knows from now on; otherwise null.
  const PrefixNode* know_snapshot(const TokenPages& entry);
  // Returns whether a page belongs to a snapshot. The pages of a snapshot are evicted together.
  bool is_of_snapshot(PageId page) const { return place(page).group == rules_.size(); }

  // Records a hit of a page.
  void touch(PageId page);
  // Records that a request waits for a page: counts as use, but not as a hit.
  void note_awaited(PageId page);
  // Pages in use are never evicted.
  void set_in_use(PageId page);
  void set_unused(PageId page);
  // Pins a page until `until`: it is evicted after all pages that are not pinned, within the
  // tenant's share (PinTable).
  void pin(PageId page, TimePoint until, uint64_t tenant);
  // Sets the number of tenants that share the pages.
  void set_tenants(uint32_t n) { pins_.set_tenants(n); }

  // Returns the page to evict next; std::nullopt if there is none. The order: pages from which no
  // sequence is likely to resume (outdated by a later snapshot or branch, or without a snapshot
  // where one is needed); in recurrent models, pages hit once before pages hit twice, until the
  // latter fill kHotPercent; pinned pages last. Within a class the least recently used page is
  // evicted first. With full attention a page is evicted after its children.
  std::optional<PageId> victim(TimePoint now);
  // Like victim(), of the pages reserved for snapshots.
  std::optional<PageId> reserved_victim(TimePoint now);

  // Removes a page that victim() returned; if it belongs to a snapshot, the whole snapshot.
  void erase(PageId page);

  // Number of nodes that became visible to all tenants so far.
  uint64_t n_revealed() const { return n_revealed_; }

  size_t n_nodes() const { return nodes_.size() - n_roots_; }
  bool knows(PageId page) const { return place(page).node != nullptr; }
  // Returns the node of a page; null if the page is not in the index.
  const PrefixNode* node_with(PageId page) const { return place(page).node; }

 private:
  // Record of a page: its node and what determines when it is evicted.
  struct Place {
    PrefixNode* node = nullptr;
    uint32_t group = 0;
    uint32_t n_uses = 0;
    uint64_t last_use = 0;  // n_ticks_ at that time
    int n_pins = 0;         // number of counting pins (PinTable)
    bool is_in_use = false;
  };
  // kHot: hit at least twice; only with Resume::kAtSnapshots.
  enum class Class : uint8_t { kSpent, kCold, kHot, kPinned };
  using Rank = std::tuple<Class, uint64_t, PageId>;  // class, last use, page

  static constexpr uint32_t kHotPercent = 75;
  static constexpr uint32_t kShortBranch = 8;  // part of the pages before it
  static constexpr size_t kEvictedRemembered = 4096;

  const Place& place(PageId page) const { return places_[static_cast<uint32_t>(page)]; }
  Place& place(PageId page) { return places_[static_cast<uint32_t>(page)]; }
  Class class_of(PageId page) const;
  bool is_bare(PageId page) const;
  Rank rank(PageId page) const;
  bool is_candidate(PageId page) const;
  bool is_reserved(PageId page) const { return static_cast<uint32_t>(page) >= first_reserved_; }
  void add_candidate(PageId page);
  void drop_candidate(PageId page);
  // Applies a change to a page and updates its position in the order of eviction.
  template <class Change>
  void change(PageId page, const Change& apply) {
    Place& p = place(page);
    if (is_candidate(page)) drop_candidate(page);
    if (p.n_uses > 1) --n_hot_;
    apply(p);
    if (p.n_uses > 1) ++n_hot_;
    if (is_candidate(page)) add_candidate(page);
  }

  PrefixNode* node_of(const PageKey& root, const PageKey& key) const;
  PrefixNode* parent_of(const TokenPages& entry);
  PrefixNode* node_for(PrefixNode& parent, const TokenPages& entry);
  bool serves_as_head(const PrefixNode& node) const;
  ChildrenByMatch::Child best_head(const PrefixNode& above, std::span<const TokenId> rest,
                                   SharingMark reader) const;
  template <class Change>
  void change_nodes(std::span<PrefixNode* const> nodes, const Change& apply);
  void set_snapshot(PrefixNode& node, std::span<const PageId> pages);
  void count_snapshot(PrefixNode& node, int n);
  void count_tail_snapshot(PrefixNode& parent, int n);
  void erase_snapshot(PrefixNode& node);
  void learn(PrefixNode& node, SharingMark known);
  void add_page(PrefixNode& node, uint32_t group, PageId page);
  void outdate(PageId page);
  void outdate_heads_of(const PrefixNode& node, SharingMark known);
  void outdate_branch_beside(const PrefixNode& node);
  void drop_if_empty(PrefixNode* node);
  void apply_pins();

  using Path = std::vector<const PrefixNode*>;
  Path walk(const PrefixNode& root, std::span<const TokenId> tokens, SharingMark reader) const;
  bool covers(const Path& path, size_t n_tokens) const;
  Match find_known(const PrefixNode& top, const PageKey& root, std::span<const TokenId> tokens,
                   const PageReader& reader) const;
  Match find_snapshot(const PrefixNode& top, std::span<const TokenId> tokens,
                      const PageReader& reader) const;
  bool find_tail_snapshot(Match& match, const PrefixNode& above, std::span<const TokenId> rest,
                          const PageReader& reader) const;
  void explain(Match& match, const PrefixNode& last, std::span<const TokenId> rest,
               const PageReader& reader) const;

  const std::vector<GroupRule> rules_;
  const KeyFunction key_of_;
  const Resume resume_;
  const uint32_t first_reserved_;
  std::vector<Place> places_;                                                    // by page
  std::unordered_map<PageKey, std::unique_ptr<PrefixNode>, PageKeyHash> nodes_;  // includes roots
  size_t n_roots_ = 0;
  std::set<Rank> candidates_;           // of all pages
  std::set<Rank> reserved_candidates_;  // of pages reserved for snapshots
  PinTable pins_;
  uint64_t n_ticks_ = 0;  // counts uses
  uint64_t n_changes_ = 0;
  uint64_t n_revealed_ = 0;
  uint32_t n_hot_ = 0;
  EvictedRecord evicted_{kEvictedRemembered};
};

}  // namespace kvik
