#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <random>
#include <set>
#include <vector>

#include "kv/kv_cache.h"
#include "kv/ledger.h"
#include "kv/open_prefix.h"
#include "kv/plain_memory.h"
#include "support/manual_clock.h"

// Random operations on pool, index, tables and ledger, compared with a simple model. All invariants
// are checked after each operation.
namespace kvik {
namespace {

using Tokens = std::vector<TokenId>;

constexpr uint32_t kTenants = 3;  // 1, 2 and 3

// A simple model of the cache: for each tenant, all lists of tokens whose K and V it has computed
// or received. The lists are sorted, so those with the longest common prefix are next to the
// position where a list would be inserted.
class PlainModel {
 public:
  void add(uint32_t salt, uint64_t tenant, const Tokens& tokens) {
    known_[salt][tenant].insert(tokens);
  }

  uint32_t longest_of(uint32_t salt, uint64_t tenant, const Tokens& tokens) const {
    const auto& known = known_[salt][tenant];
    const auto above = known.lower_bound(tokens);
    uint32_t best = 0;
    if (above != known.end()) best = common_prefix(*above, tokens);
    if (above != known.begin()) best = std::max(best, common_prefix(*std::prev(above), tokens));
    return best;
  }
  // Returns the n-th largest number of tokens that any tenant has of the list.
  uint32_t nth_longest(uint32_t salt, uint32_t n, const Tokens& tokens) const {
    std::vector<uint32_t> lengths;
    for (uint64_t t = 1; t <= kTenants; ++t) lengths.push_back(longest_of(salt, t, tokens));
    std::ranges::sort(lengths, std::ranges::greater());
    return lengths[n - 1];
  }

 private:
  std::set<Tokens> known_[2][kTenants + 1];
};

struct Live {
  PageTable table;
  uint32_t salt = 0;
  Tokens tokens;
  std::vector<uint16_t> tags;  // for each token, a hash of all tokens up to it, in place of K and V
  uint32_t n_cached = 0;
};

class RandomRun {
 public:
  RandomRun(uint32_t seed, uint32_t n_pages, std::vector<uint32_t> windows,
            KeyFunction key_of = child_key, Sharing sharing = Sharing::kAll)
      : random_(seed),
        cache_(memory_, uint64_t{n_pages} * kPageBytes, KvLayout(kPageBytes, rules_of(windows)),
               clock_, key_of),
        windows_(std::move(windows)),
        n_pages_(n_pages),
        finds_all_(key_of == child_key) {
    cache_.pages().set_sharing(sharing);
    cache_.pages().index().set_tenants(sharing == Sharing::kAll ? 1 : kTenants);
  }

  void run(uint32_t n_operations) {
    for (uint32_t i = 0; i < n_operations; ++i) {
      operate();
      check_invariants();
      if (testing::Test::HasFailure()) return;
    }
    while (!live_.empty()) end(0);
    reservations_.clear();
    check_invariants();
    EXPECT_EQ(cache_.counts().leased + cache_.counts().sealed, 0u);
    EXPECT_EQ(ledger_.taken(), 0u);
    n_evictions_ = cache_.pages().n_evictions();
    PageTable all = cache_.make_table();
    EXPECT_TRUE(cache_.grow(all, cache_.n_tokens_max())) << "some page can never be evicted";
  }

  uint64_t n_evictions() const { return n_evictions_; }
  uint64_t n_found() const { return n_found_; }
  uint64_t n_compared() const { return n_compared_; }
  // Numbers of prompts for which pages of others were found, and for which others had more tokens
  // than were found.
  uint64_t n_of_others() const { return n_of_others_; }
  uint64_t n_hidden() const { return n_hidden_; }

 private:
  static constexpr size_t kPageBytes = kPageTokens * sizeof(uint16_t);

  uint32_t operation(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  void operate() {
    clock_.advance(std::chrono::milliseconds(operation(50)));
    const uint32_t what = operation(20);
    if (live_.empty() || (what < 2 && live_.size() < 8)) return begin();
    const uint32_t which = operation(static_cast<uint32_t>(live_.size()));
    if (what < 8) return compute(live_[which]);
    if (what < 14) return decode(live_[which]);
    if (what < 16) return adopt(live_[which]);
    if (what < 17) return copy_filling(live_[which]);
    if (what < 18) return reserve();
    if (what < 19 && operation(3) == 0) return drop(which);
    end(which);
  }

  // Few different tokens, so that prefixes are often shared, completely or in part.
  Tokens some_prompt() {
    Tokens tokens;
    if (!ended_.empty() &&
        operation(2) == 0) {  // the next turn of a conversation, or a branch of it
      tokens = ended_[operation(static_cast<uint32_t>(ended_.size()))];
      if (operation(2) == 0) tokens.resize(1 + operation(static_cast<uint32_t>(tokens.size())));
    }
    const size_t n = std::min<size_t>(tokens.size() + 1 + operation(100), 260);
    while (tokens.size() < n) tokens.push_back(operation(8) == 0 ? operation(3) : 0);
    return tokens;
  }

  void begin() {
    Live next;
    next.table = cache_.make_table();
    next.salt = operation(10) == 0 ? 1 : 0;
    next.table.owner.tenant = 1 + operation(kTenants);
    if (operation(8) == 0)
      next.table.owner.pins = {{1 + operation(100), std::chrono::seconds(operation(3))}};
    next.tokens = some_prompt();
    tag(next);
    const PrefixQuery query{root(next), next.tokens, next.table.owner.tenant};
    FoundPrefix prefix = cache_.look_up(query);
    if (operation(4) == 0) cache_.hold(prefix);
    while (operation(3) == 0 && !live_.empty()) {  // it waits while others advance
      compute(live_[operation(static_cast<uint32_t>(live_.size()))]);
    }
    if (!cache_.open(next.table, query, prefix, next.tokens.size(), operation(3))) return;
    const uint32_t found = prefix.n_tokens();
    n_found_ += found;
    ASSERT_LE(found, next.tokens.size());
    ASSERT_EQ(prefix.report().ram_tokens, found);
    check_found(next, prefix);
    next.n_cached = found;
    learn(next, found);
    live_.push_back(std::move(next));
    check_contents(live_.back());
  }

  // Checks the number of cached tokens. It is never more than the tenant itself has, or two tenants
  // have. If nothing was evicted it is never less, except that pages which two tenants have only in
  // part do not count.
  void check_found(const Live& live, const FoundPrefix& prefix) {
    const uint32_t found = prefix.n_tokens();
    const bool is_private = cache_.pages().sharing() == Sharing::kTwo;
    const uint32_t own = plain_.longest_of(live.salt, live.table.owner.tenant, live.tokens);
    const uint32_t others = plain_.nth_longest(live.salt, is_private ? 2 : 1, live.tokens);
    ASSERT_LE(found, std::max(own, others));
    if (cache_.pages().n_evictions() > 0 || !finds_all_) return;
    ++n_compared_;
    const uint32_t of_all = is_private ? others / kPageTokens * kPageTokens : others;
    ASSERT_GE(found, std::max(own, of_all));
    ASSERT_EQ(prefix.report().miss == MissReason::kNone, found == live.tokens.size());
    ASSERT_NE(prefix.report().miss, MissReason::kEvicted);
    if (is_private && found > own) ++n_of_others_;
    if (is_private && plain_.nth_longest(live.salt, 1, live.tokens) > found) ++n_hidden_;
  }

  // The tag of a token depends on all tokens before it, as its K and V do.
  void tag(Live& live) const {
    uint32_t state = live.tags.empty() ? 17 + live.salt : live.tags.back();
    for (size_t t = live.tags.size(); t < live.tokens.size(); ++t) {
      state = (state * 40503u + live.tokens[t] * 977u + static_cast<uint32_t>(t) + 1) & 0xffff;
      live.tags.push_back(static_cast<uint16_t>(state));
    }
  }
  static uint16_t in_group(uint16_t tag, uint32_t group) {
    return static_cast<uint16_t>(tag ^ (group * 0x5a5a));
  }
  PageKey root(const Live& live) const { return roots_[live.salt]; }

  void compute(Live& live) {
    if (live.n_cached == live.tokens.size() || !cache_.grow(live.table, live.tokens.size())) return;
    const auto n_left = static_cast<uint32_t>(live.tokens.size()) - live.n_cached;
    advance(live, std::min(n_left, 1 + operation(70)));
  }

  void decode(Live& live) {
    if (live.n_cached < live.tokens.size()) return compute(live);
    if (live.tokens.size() > 300 || !cache_.grow(live.table, live.tokens.size() + 1)) return;
    live.tokens.push_back(operation(3));
    tag(live);
    advance(live, 1);
  }

  void advance(Live& live, uint32_t n_new) {
    const uint32_t n = cache_.make_room(live.table, live.n_cached, n_new);
    ASSERT_GE(n, 1u) << "grow() promised one";
    for (uint32_t g = 0; g < live.table.n_groups(); ++g) {
      for (uint32_t t = live.n_cached; t < live.n_cached + n; ++t) {
        const uint16_t value = in_group(live.tags[t], g);
        std::byte* page = live.table.addresses(g)[t / kPageTokens];
        std::memcpy(page + t % kPageTokens * sizeof(value), &value, sizeof(value));
      }
    }
    live.n_cached += n;
    seal(live);
    if (operation(8) == 0) check_contents(live);
  }

  void seal(Live& live) {
    const auto cached = std::span(live.tokens).first(live.n_cached);
    cache_.seal(live.table, cached);
    cache_.slide(live.table, live.n_cached);
    learn(live, live.table.n_sealed() * kPageTokens);
  }

  void learn(const Live& live, uint32_t n_tokens) {
    if (n_tokens == 0) return;
    plain_.add(live.salt, live.table.owner.tenant,
               Tokens(live.tokens.begin(), live.tokens.begin() + n_tokens));
  }

  void adopt(Live& live) {
    const uint32_t n = cache_.adopt(live.table, live.tokens);
    const uint32_t others = plain_.nth_longest(
        live.salt, cache_.pages().sharing() == Sharing::kTwo ? 2 : 1, live.tokens);
    ASSERT_LE(n, std::max({live.n_cached, others,
                           plain_.longest_of(live.salt, live.table.owner.tenant, live.tokens)}));
    live.n_cached = std::max(live.n_cached, n);
    learn(live, n);
    check_contents(live);
  }

  // Copies the rows that another sequence has computed of the page that both are filling.
  void copy_filling(Live& live) {
    for (const Live& other : live_) {
      if (&other == &live || other.salt != live.salt) continue;
      if (cache_.pages().mark_of(other.table.owner.tenant) !=
          cache_.pages().mark_of(live.table.owner.tenant)) {
        continue;
      }
      if (other.table.n_sealed() != live.table.n_sealed()) continue;
      if (other.table.last_key() != live.table.last_key()) continue;
      const size_t begin = size_t{live.table.n_sealed()} * kPageTokens;
      const uint32_t n =
          std::min(common_prefix(std::span(other.tokens).subspan(begin, other.n_cached - begin),
                                 std::span(live.tokens).subspan(begin)),
                   kPageTokens - 1);
      if (begin + n <= live.n_cached) continue;
      if (!cache_.grow(live.table, live.tokens.size())) return;
      if (!cache_.copy_partial_page(live.table, other.table, other.n_cached, other.n_cached))
        continue;
      live.n_cached = static_cast<uint32_t>(begin) + n;
      return check_contents(live);
    }
  }

  void reserve() {
    const uint64_t bytes = operation(1000);
    const auto kind = MemoryKind(operation(kMemoryKinds));
    const uint64_t before = ledger_.taken();
    auto reservation = ledger_.reserve(kind, bytes);
    ASSERT_EQ(reservation.has_value(), before + bytes <= ledger_.budget());
    if (reservation) reservations_.push_back(std::move(*reservation));
    if (reservations_.size() > 4 && operation(2) == 0) reservations_.pop_front();
  }

  void end(uint32_t which) {
    Live& live = live_[which];
    learn(live, live.n_cached);
    cache_.close(live.table, std::span(live.tokens).first(live.n_cached));
    ASSERT_TRUE(live.table.is_empty());
    if (live.n_cached > 0) ended_.push_back(live.tokens);
    if (ended_.size() > 20) ended_.pop_front();
    live_.erase(live_.begin() + which);
  }

  void drop(uint32_t which) { live_.erase(live_.begin() + which); }

  // Checks that all values which the next token attends to are those that this sequence would have
  // computed.
  void check_contents(const Live& live) const {
    for (uint32_t g = 0; g < live.table.n_groups(); ++g) {
      const uint32_t window = windows_[g];
      uint32_t t = window > 0 && live.n_cached + 1 > window ? live.n_cached + 1 - window : 0;
      for (; t < live.n_cached; ++t) {
        ASSERT_TRUE(live.table.holds(g, t / kPageTokens));
        uint16_t value = 0;
        const std::byte* page = live.table.addresses(g)[t / kPageTokens];
        std::memcpy(&value, page + t % kPageTokens * sizeof(value), sizeof(value));
        ASSERT_EQ(value, in_group(live.tags[t], g)) << "group " << g << ", token " << t;
      }
    }
  }

  void check_invariants() {
    const PageCounts& all = cache_.counts();
    PageCounts sum{.free = all.free};
    for (uint32_t g = 0; g < cache_.layout().n_groups(); ++g) {
      ASSERT_EQ(cache_.counts(g).free, 0u);
      sum.leased += cache_.counts(g).leased;
      sum.sealed += cache_.counts(g).sealed;
      sum.cached += cache_.counts(g).cached;
    }
    ASSERT_EQ(sum.total(), n_pages_);
    ASSERT_EQ(all.leased, sum.leased);
    ASSERT_EQ(all.sealed, sum.sealed);
    ASSERT_EQ(all.cached, sum.cached);

    std::set<PageId> full;
    uint32_t n_filling = 0;
    for (const Live& live : live_) {
      for (uint32_t g = 0; g < live.table.n_groups(); ++g) {
        for (uint32_t i = live.table.n_slid(g); i < live.table.n_pages(g); ++i) {
          if (!live.table.holds(g, i)) continue;
          if (i >= live.table.n_sealed()) {
            ++n_filling;
          } else {
            full.insert(live.table.page(g, i));
          }
        }
      }
    }
    ASSERT_EQ(all.leased, n_filling);
    ASSERT_EQ(all.sealed, full.size());

    uint64_t taken = 0;
    for (const Reservation& r : reservations_) taken += r.bytes();
    ASSERT_EQ(ledger_.taken(), taken);
    uint64_t by_kind = 0;
    for (size_t k = 0; k < kMemoryKinds; ++k) by_kind += ledger_.bytes(MemoryKind(k));
    ASSERT_EQ(by_kind, taken);
  }

  std::mt19937 random_;
  PlainMemory memory_;
  ManualClock clock_;
  const PageKey roots_[2] = {root_key("test", ""), root_key("test", "salt")};
  KvCache cache_;
  Ledger ledger_{5000};
  std::deque<Reservation> reservations_;
  PlainModel plain_;
  std::vector<Live> live_;
  std::deque<Tokens> ended_;
  std::vector<uint32_t> windows_;
  uint32_t n_pages_;
  bool finds_all_;
  uint64_t n_evictions_ = 0;
  uint64_t n_found_ = 0;
  uint64_t n_compared_ = 0;
  uint64_t n_of_others_ = 0;
  uint64_t n_hidden_ = 0;
};

TEST(KvRandom, operations_break_no_invariant_and_find_what_the_plain_model_knows) {
  const bool is_long = std::getenv("KVIK_TEST_LONG") != nullptr;
  const std::vector<std::vector<uint32_t>> layouts = {{0}, {0, 64}, {40}, {0, 33, 33}, {0, 0, 96}};
  for (uint32_t seed = 0; seed < (is_long ? 200 : 5); ++seed) {
    SCOPED_TRACE(seed);
    const auto& windows = layouts[seed % layouts.size()];
    const auto n_groups = static_cast<uint32_t>(windows.size());
    const bool is_roomy = seed / layouts.size() % 4 == 3;
    RandomRun run(seed, (is_roomy ? 20000 : 15 + seed % 40) * n_groups, windows);
    run.run(is_long ? 100'000 : 20'000);
    if (testing::Test::HasFailure()) return;
    EXPECT_GT(run.n_found(), 0u);
    EXPECT_GT(run.n_compared(), is_roomy ? 1000u : 0u);
    if (!is_roomy) {
      EXPECT_GT(run.n_evictions(), 100u);
    }
  }
}

// In a large cache nothing is evicted, so every prefix is compared with the simple model.
TEST(KvRandom, with_room_for_everything_every_known_prefix_is_found_to_the_token) {
  for (const std::vector<uint32_t>& windows : {std::vector<uint32_t>{0}, {0, 64}, {40, 40}}) {
    RandomRun run(7, 20000 * static_cast<uint32_t>(windows.size()), windows);
    run.run(10'000);
    EXPECT_GT(run.n_compared(), 500u);
    EXPECT_EQ(run.n_evictions(), 0u);
  }
}

TEST(KvRandom, private_pages_of_others_are_never_found) {
  for (const std::vector<uint32_t>& windows : {std::vector<uint32_t>{0}, {0, 64}, {40}}) {
    for (uint32_t seed = 0; seed < 4; ++seed) {
      SCOPED_TRACE(seed);
      const bool is_roomy = seed % 2 == 0;
      const auto n_groups = static_cast<uint32_t>(windows.size());
      RandomRun run(seed, (is_roomy ? 20000 : 30) * n_groups, windows, child_key, Sharing::kTwo);
      run.run(10'000);
      if (testing::Test::HasFailure()) return;
      EXPECT_GT(run.n_found(), 0u);
      if (is_roomy) {
        EXPECT_GT(run.n_of_others(), 20u);
        EXPECT_GT(run.n_hidden(), 20u);
      } else {
        EXPECT_GT(run.n_evictions(), 100u);
      }
    }
  }
}

// Returns one of forty keys, two of which are the keys of the roots.
PageKey colliding_key(const PageKey& parent, std::span<const TokenId> tokens) {
  const auto n = static_cast<uint32_t>(child_key(parent, tokens).bytes[0]) % 40;
  if (n < 2) return root_key("test", n == 0 ? "" : "salt");
  PageKey key;
  key.bytes[0] = std::byte(n);
  return key;
}

// A page whose key is taken by another one is not shared, and neither are the pages after it. The
// runs check that every shared token has the bytes of its own prefix.
TEST(KvRandom, pages_with_colliding_keys_are_not_confused) {
  for (const std::vector<uint32_t>& windows : {std::vector<uint32_t>{0}, {0, 64}, {0, 33, 33}}) {
    for (uint32_t seed = 0; seed < 4; ++seed) {
      SCOPED_TRACE(seed);
      const auto n_groups = static_cast<uint32_t>(windows.size());
      RandomRun run(seed, (seed % 2 == 0 ? 40 : 2000) * n_groups, windows, colliding_key);
      run.run(10'000);
      if (testing::Test::HasFailure()) return;
      EXPECT_GT(run.n_found(), 0u);
    }
  }
}

}  // namespace
}  // namespace kvik
