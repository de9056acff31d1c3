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
#include "kv/index/pin_book.h"
#include "kv/index/prefix_node.h"
#include "kv/known_by.h"
#include "kv/page_key.h"
#include "kv/page_pool.h"
#include "tensor/kv_type.h"

namespace kvik {

// Which pages hold the K and V of which tokens: a forest of nodes, each below the one that holds
// the tokens before its own, found by comparing tokens. A node is found by those who know it
// (KnownBy); to others it is as if it were not there. Pages of one node come and go one by one:
//   - a group that sees everything has a node's page only while it has that of the node's parent,
//   - a windowed group may have any: a prefix of n tokens needs those alone that cover the window
//     behind n.
// A node goes when it has no page and no child. Knows no contents. Engine thread only.
class PrefixIndex {
 public:
  // For pages 0 … n_pages - 1 of groups with these rules. Where sequences have a state, a prefix is
  // found up to where there is a snapshot of it; where they have open pages, up to the end of a
  // page, or inside one that has a snapshot. The last n_apart pages serve for snapshots alone.
  enum class Resume : uint8_t { kAnywhere, kAtSnapshots, kAtOpenPages };
  PrefixIndex(uint32_t n_pages, std::vector<GroupRule> rules, KeyFunction key_of = child_key,
              Resume resume = Resume::kAnywhere, uint32_t n_apart = 0);

  // The longest known prefix of a list of tokens that pages of all groups hold as far as needed.
  // Its nodes stay until n_changes() moves on.
  struct Match {
    const PrefixNode* last =
        nullptr;           // of the nodes all of whose tokens match; null: there is none
    uint32_t n_whole = 0;  // these nodes
    const PrefixNode* head = nullptr;  // a child of the last whose first n_head match too
    uint32_t n_head = 0;
    const PrefixNode* snapshot = nullptr;  // the node that has it, where one is needed
    uint32_t n_known = 0;                  // tokens whose pages are there, with or without one
    MissReason miss = MissReason::kNone;   // why no more
    // Tokens behind these with which a known page begins, and which cannot be resumed from.
    uint32_t n_alike = 0;
    // kDiverged, where everybody finds everything: what this tenant's own tokens went on with.
    std::optional<TokenId> expected;

    uint32_t n_tokens() const { return n_whole * kPageTokens + n_head; }
  };
  Match find(const PageKey& root, std::span<const TokenId> tokens, const PageReader& reader) const;

  // Pages that came or went, or became known to all: a search finds the same until there is one
  // more.
  uint64_t n_changes() const { return n_changes_; }

  // The node of these kPageTokens tokens right behind `parent`, which may be the root; null where
  // the reader finds none.
  const PrefixNode* find_child(const PageKey& root, const PageKey& parent,
                               std::span<const TokenId> tokens, KnownBy reader) const;

  // Who knows these tokens behind `parent`, whoever asks: for decisions about work, never for
  // answers.
  KnownBy who_knows(const PageKey& root, const PageKey& parent,
                    std::span<const TokenId> tokens) const;

  // Appends up to n_most tokens that known sequences which the reader finds go on with behind
  // `tokens`, fewer than kPageTokens, which stand right behind `parent`; of several sequences, that
  // which was used last.
  void continue_behind(const PageKey& root, const PageKey& parent, std::span<const TokenId> tokens,
                       KnownBy reader, size_t n_most, std::vector<TokenId>& out) const;

  // Tokens that stand behind `parent`, and pages that hold them; none for a group without.
  struct Stretch {
    PageKey root;
    PageKey parent;  // may be the root
    std::span<const TokenId> tokens;
    std::span<const std::optional<PageId>> pages;
    uint64_t tenant = 0;
    KnownBy known = KnownBy::kAll;
    std::shared_ptr<const std::string> adapter = nullptr;  // PageOwner::adapter
  };
  // Makes pages findable where the tokens are not known yet in their group, alone or as the head of
  // others that the same reader finds, and returns the node that holds the tokens from now on:
  // where a page of it is not the one given, that one was there before. What one tenant knew and
  // another computed is known to all from now on, and ranks among pages as if it were new: how
  // somebody used it before shows in nothing. Null where the key is that of other tokens, or the
  // parent was given up meanwhile. New pages count as in use.
  const PrefixNode* insert(const Stretch& stretch);

  // Makes a snapshot of the state behind a stretch findable, which may be none: then it is behind
  // `parent`. Null where the stretch cannot be known, or has a snapshot already; else its pages,
  // the first of which counts as in use, are the node's.
  const PrefixNode* attach(const Stretch& stretch, std::span<const PageId> snapshot,
                           SnapshotKind kind, Regard regard);
  // A later one serves whoever went on from this: it is given up before all others. Those of a
  // branch are not.
  void outdate_snapshot(const PageKey& key);
  // The node behind a stretch that has a snapshot already, which is known to who made the stretch
  // from now on; null where there is none.
  const PrefixNode* know_snapshot(const Stretch& stretch);
  // Whether a page is one of a snapshot's, all of which go together.
  bool is_of_snapshot(PageId page) const { return place(page).group == rules_.size(); }

  // Notes that a page was found once more.
  void touch(PageId page);
  // Notes that somebody waits for a page: as good as used now, but not found.
  void note_awaited(PageId page);
  // Pages in use are never given up.
  void set_in_use(PageId page);
  void set_unused(PageId page);
  // Until then the page is given up after all that are not pinned, as far as the tenant's share
  // goes (PinBook).
  void pin(PageId page, TimePoint until, uint64_t tenant);
  // How many tenants share the pages.
  void set_tenants(uint32_t n) { pins_.set_tenants(n); }

  // The page to give up next: pinned ones last; leaves before what stands above them, in groups
  // that see everything; first what nobody will go on from: what a later one serves for, and pages
  // on which no snapshot stands where one is needed; a page found twice after one found once (so
  // that one long scan does not empty the cache), until those found twice fill kHotShare; then the
  // one that was used longest ago. std::nullopt where there is none.
  std::optional<PageId> victim(TimePoint now);
  // Of those that are apart.
  std::optional<PageId> victim_apart(TimePoint now);

  // Forgets a page that victim() named, and of a snapshot all.
  void erase(PageId page);

  // Nodes that became known to all so far.
  uint64_t n_revealed() const { return n_revealed_; }

  size_t n_nodes() const { return nodes_.size() - n_roots_; }
  bool knows(PageId page) const { return place(page).node != nullptr; }
  // What a page belongs to; null where it is not known.
  const PrefixNode* node_with(PageId page) const { return place(page).node; }

 private:
  // Where a known page belongs, and what speaks for keeping it.
  struct Place {
    PrefixNode* node = nullptr;
    uint32_t group = 0;
    uint32_t n_uses = 0;
    uint64_t last_use = 0;
    int n_pins = 0;  // that count
    bool is_in_use = false;
  };
  enum class Class : uint8_t { kSpent, kCold, kHot, kPinned };  // kHot: found twice or more
  using Rank = std::tuple<Class, uint64_t, PageId>;             // class, last use, page

  static constexpr uint32_t kHotPercent = 75;
  static constexpr size_t kEvictedRemembered = 4096;

  const Place& place(PageId page) const { return places_[static_cast<uint32_t>(page)]; }
  Place& place(PageId page) { return places_[static_cast<uint32_t>(page)]; }
  Class class_of(PageId page) const;
  bool is_bare(PageId page) const;
  Rank rank(PageId page) const;
  bool is_candidate(PageId page) const;
  bool is_apart(PageId page) const { return static_cast<uint32_t>(page) >= first_apart_; }
  void add_candidate(PageId page);
  void drop_candidate(PageId page);
  // Applies a change that may move a page in the order of candidates.
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
  PrefixNode* parent_of(const Stretch& stretch);
  PrefixNode* node_for(PrefixNode& parent, const Stretch& stretch);
  bool serves_as_head(const PrefixNode& node) const;
  ChildrenByMatch::Child best_head(const PrefixNode& above, std::span<const TokenId> rest,
                                   KnownBy reader) const;
  template <class Change>
  void change_nodes(std::span<PrefixNode* const> nodes, const Change& apply);
  void set_snapshot(PrefixNode& node, std::span<const PageId> pages);
  void count_snapshot(PrefixNode& node, int n);
  void count_tail_snapshot(PrefixNode& parent, int n);
  void erase_snapshot(PrefixNode& node);
  void learn(PrefixNode& node, KnownBy known);
  void add_page(PrefixNode& node, uint32_t group, PageId page);
  void outdate(PageId page);
  void outdate_heads_of(const PrefixNode& node, KnownBy known);
  void drop_if_empty(PrefixNode* node);
  void apply_pins();

  using Path = std::vector<const PrefixNode*>;
  Path walk(const PrefixNode& root, std::span<const TokenId> tokens, KnownBy reader) const;
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
  const uint32_t first_apart_;
  std::vector<Place> places_;                                                    // by page
  std::unordered_map<PageKey, std::unique_ptr<PrefixNode>, PageKeyHash> nodes_;  // and roots
  size_t n_roots_ = 0;
  std::set<Rank> candidates_;        // all
  std::set<Rank> apart_candidates_;  // those that are apart
  PinBook pins_;
  uint64_t n_ticks_ = 0;
  uint64_t n_changes_ = 0;
  uint64_t n_revealed_ = 0;
  uint32_t n_hot_ = 0;
  EvictedRecord evicted_{kEvictedRemembered};
};

}  // namespace kvik
