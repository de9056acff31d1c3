#include "tier/tier_queue.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "kv/plain_memory.h"
#include "tier/stored_pages.h"

namespace kvik {
namespace {

constexpr size_t kPageBytes = 1000;
constexpr std::chrono::seconds kTimeout{60};
const PageKey kRoot = root_key("a model", "");

// A tier in memory that fails or hangs on demand.
class FakeTier final : public Tier {
 public:
  Get get(TierPage& wanted, SharingMark reader, std::span<std::byte> slot,
          size_t n_bytes) override {
    std::unique_lock lock(mutex_);
    ++n_gets_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !hangs_; });
    if (is_dead_) return Get::kFailed;
    const auto it = pages_.find(name_of(wanted.key, wanted.group));
    if (it == pages_.end() || !may_hit(reader, it->second.page.known)) return Get::kAbsent;
    wanted.known = it->second.page.known;
    if (it->second.page != wanted) return Get::kDamaged;
    CHECK(it->second.bytes.size() == n_bytes);
    std::ranges::copy(it->second.bytes, slot.begin());
    return Get::kFound;
  }
  std::vector<Child> children(const PageKey& parent, uint32_t group, SharingMark reader,
                              size_t limit) override {
    const std::lock_guard lock(mutex_);
    std::vector<Child> found;
    for (const auto& [name, stored] : pages_) {
      if (stored.page.parent == parent && stored.page.group == group && found.size() < limit &&
          may_hit(reader, stored.page.known)) {
        found.push_back({stored.page.key, stored.page.tokens});
      }
    }
    return found;
  }
  Result<void> put(std::span<Put> pages) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !hangs_; });
    if (is_broken_) return fail(ErrorCode::kIo, "the fake is broken");
    for (const Put& put : pages) {
      const auto bytes = put.slot.first(put.n_bytes);
      pages_[name_of(put.page.key, put.page.group)] = {put.page, {bytes.begin(), bytes.end()}};
    }
    return {};
  }
  size_t head_bytes() const override { return 0; }
  size_t alignment() const override { return 64; }
  size_t slot_bytes(size_t n_page_bytes) const override { return n_page_bytes; }
  Result<void> recover() override {
    const std::lock_guard lock(mutex_);
    if (is_broken_) return fail(ErrorCode::kIo, "the fake is broken");
    return {};
  }
  Result<void> tidy_up() override { return {}; }
  TierSize size() const override { return {}; }

  void set_broken(bool is_broken) {
    const std::lock_guard lock(mutex_);
    is_broken_ = is_broken;
  }
  void set_hanging(bool hangs) {
    const std::lock_guard lock(mutex_);
    hangs_ = hangs;
    changed_.notify_all();
  }
  void set_dead(bool is_dead) {
    const std::lock_guard lock(mutex_);
    is_dead_ = is_dead;
  }
  size_t n_gets() {
    const std::lock_guard lock(mutex_);
    return n_gets_;
  }
  void wait_for_gets(size_t n) {
    std::unique_lock lock(mutex_);
    CHECK(changed_.wait_for(lock, kTimeout, [&] { return n_gets_ >= n; }));
  }
  size_t n_pages() {
    const std::lock_guard lock(mutex_);
    return pages_.size();
  }
  void damage(const TierPage& page) {
    const std::lock_guard lock(mutex_);
    pages_.at(name_of(page.key, page.group)).page.tokens[0] ^= 1;
  }

 private:
  using Name = std::pair<std::array<std::byte, 32>, uint32_t>;
  static Name name_of(const PageKey& key, uint32_t group) { return {key.bytes, group}; }

  std::mutex mutex_;  // guards all members below
  std::condition_variable changed_;
  std::map<Name, StoredPage> pages_;
  bool is_broken_ = false;
  bool hangs_ = false;
  bool is_dead_ = false;  // reads fail
  size_t n_gets_ = 0;
};

// A queue over a fake tier, and the engine's side of it.
class Rig {
 public:
  explicit Rig(uint32_t n_slots = 4)
      : queue_(tier_, memory_,
               {.page_bytes = kPageBytes,
                .n_write_slots = n_slots,
                .n_read_slots = n_slots,
                .retry_after = std::chrono::milliseconds(1)},
               [this] { wake(); }) {}
  ~Rig() { tier_.set_hanging(false); }

  // Saves all pages, waiting for slots.
  void save(std::span<const StoredPage> pages) {
    for (const StoredPage& page : pages) {
      while (!queue_.save(page.page, page.bytes.data())) wait();
    }
    queue_.flush(kTimeout);
  }

  FetchId fetch(const std::vector<TokenId>& tokens, const std::vector<uint32_t>& windows = {0}) {
    const FetchId id{++last_id_};
    is_begun_ = queue_.fetch({.id = id,
                              .root = kRoot,
                              .parent = kRoot,
                              .n_before = 0,
                              .tokens = tokens,
                              .rules = rules_of(windows)});
    return id;
  }

  // Starts a fetch from a tier that hangs, and abandons it.
  void suspend(const std::vector<TokenId>& tokens) {
    tier_.set_hanging(true);
    const size_t n_before = tier_.n_gets();
    const FetchId id = fetch(tokens);
    tier_.wait_for_gets(n_before + 1);
    queue_.time_out(id);
  }
  // Repeats the fetch until the queue accepts it, and returns its pages.
  std::vector<TierPage> take_all_when_back(const std::vector<TokenId>& tokens) {
    FetchId id{};
    do {
      wait();
      id = fetch(tokens);
    } while (!is_begun_);
    return take_all(id);
  }

  // Returns the pages that arrive until the fetch ends, after checking their bytes.
  std::vector<TierPage> take_all(FetchId id) {
    std::vector<TierPage> pages;
    for (end_.reset(); !end_; wait()) {
      queue_.take_arrivals([&](const TierArrival& arrival) {
        if (arrival.id != id) return;
        end_ = arrival.end;
        if (end_) return;
        std::vector<std::byte> bytes(arrival.bytes.size());
        arrival.bytes.place(bytes.data());
        EXPECT_EQ(bytes, bytes_of_page(arrival.page, kPageBytes));
        pages.push_back(arrival.page);
      });
      if (end_) break;
    }
    return pages;
  }

  FakeTier& tier() { return tier_; }
  TierQueue& queue() { return queue_; }
  FetchEnd end() const { return *end_; }
  bool is_begun() const { return is_begun_; }

  void wait() {
    std::unique_lock lock(mutex_);
    woken_.wait_for(lock, std::chrono::milliseconds(20), [&] { return is_woken_; });
    is_woken_ = false;
  }

 private:
  void wake() {
    const std::lock_guard lock(mutex_);
    is_woken_ = true;
    woken_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable woken_;
  bool is_woken_ = false;
  FakeTier tier_;
  PlainMemory memory_;
  TierQueue queue_;
  uint64_t last_id_ = 0;
  std::optional<FetchEnd> end_;
  bool is_begun_ = false;
};

std::vector<TokenId> tokens_of(std::span<const StoredPage> pages) {
  std::vector<TokenId> tokens;
  for (const StoredPage& page : pages) {
    tokens.insert(tokens.end(), page.page.tokens.begin(), page.page.tokens.end());
  }
  return tokens;
}

TEST(TierQueue, what_was_saved_comes_back_in_its_order) {
  Rig rig;
  const auto pages = chain_of_pages(kRoot, 32 * 20, 1, kPageBytes);
  rig.save(pages);
  EXPECT_EQ(rig.tier().n_pages(), 20u);
  const auto got = rig.take_all(rig.fetch(tokens_of(pages)));
  ASSERT_EQ(got.size(), 20u);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], pages[i].page);
  EXPECT_EQ(rig.end(), FetchEnd::kComplete);
  EXPECT_EQ(rig.queue().counters().pages_read, 20u);
  EXPECT_EQ(rig.queue().counters().pages_written, 20u);
}

TEST(TierQueue, a_chain_that_ends_early_is_a_miss_that_is_counted) {
  Rig rig;
  const auto pages = chain_of_pages(kRoot, 32 * 6, 1, kPageBytes);
  rig.save(std::span(pages).first(4));
  EXPECT_EQ(rig.take_all(rig.fetch(tokens_of(pages))).size(), 4u);
  EXPECT_EQ(rig.end(), FetchEnd::kAbsent);
  EXPECT_EQ(rig.queue().counters().misses_absent, 1u);
}

TEST(TierQueue, a_damaged_page_ends_the_chain) {
  Rig rig;
  const auto pages = chain_of_pages(kRoot, 32 * 6, 1, kPageBytes);
  rig.save(pages);
  rig.tier().damage(pages[2].page);
  EXPECT_EQ(rig.take_all(rig.fetch(tokens_of(pages))).size(), 2u);
  EXPECT_EQ(rig.end(), FetchEnd::kDamaged);
  EXPECT_EQ(rig.queue().counters().misses_damaged, 1u);
}

TEST(TierQueue, a_prompt_that_ends_inside_a_page_gets_the_child_that_shares_most) {
  Rig rig;
  const auto tail = chain_of_pages(kRoot, 50, 1, kPageBytes);  // a whole page and 18 tokens
  rig.save(tail);
  auto tokens = tokens_of(tail);
  tokens.resize(45);
  tokens.push_back(77777);
  const auto got = rig.take_all(rig.fetch(tokens));
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[1], tail[1].page);
  tokens[0] = 88888;
  EXPECT_TRUE(rig.take_all(rig.fetch(tokens)).empty());
}

TEST(TierQueue, of_windowed_groups_only_what_the_end_sees_is_read) {
  Rig rig;
  auto pages = chain_of_pages(kRoot, 32 * 8, 1, kPageBytes);
  auto windowed = pages;
  for (StoredPage& page : windowed) {
    page.page.group = 1;
    page.bytes = bytes_of_page(page.page, kPageBytes);
  }
  rig.save(pages);
  rig.save(windowed);
  const auto got = rig.take_all(rig.fetch(tokens_of(pages), {0, 64}));
  std::multiset<uint32_t> groups;
  for (const TierPage& page : got) groups.insert(page.group);
  EXPECT_EQ(groups.count(0), 8u);
  EXPECT_EQ(groups.count(1), 2u);
}

TEST(TierQueue, a_full_queue_rejects_a_save_and_wakes_the_engine) {
  Rig rig(2);
  const auto pages = chain_of_pages(kRoot, 32 * 5, 1, kPageBytes);
  rig.tier().set_hanging(true);
  size_t n = 0;
  while (rig.queue().save(pages[n].page, pages[n].bytes.data())) ++n;
  EXPECT_EQ(n, 2u);
  EXPECT_EQ(rig.queue().counters().queue_pages, 2u);
  rig.tier().set_hanging(false);
  rig.save(std::span(pages).subspan(n));
  EXPECT_EQ(rig.tier().n_pages(), 5u);
}

TEST(TierQueue, a_tier_that_fails_is_degraded_until_it_is_back) {
  Rig rig;
  const auto pages = chain_of_pages(kRoot, 32 * 20, 1, kPageBytes);
  rig.tier().set_broken(true);
  rig.save(pages);
  EXPECT_TRUE(rig.queue().counters().is_degraded);
  EXPECT_GE(rig.queue().counters().write_errors, 1u);
  EXPECT_EQ(rig.tier().n_pages(), 0u);
  rig.tier().set_broken(false);
  while (rig.queue().n_recoveries() == 0) rig.wait();
  EXPECT_FALSE(rig.queue().counters().is_degraded);
  rig.save(pages);
  EXPECT_EQ(rig.tier().n_pages(), 20u);
}

TEST(TierQueue, a_tier_that_hangs_is_skipped_until_it_recovers) {
  Rig rig;
  const auto pages = chain_of_pages(kRoot, 32 * 4, 1, kPageBytes);
  rig.save(pages);
  rig.suspend(tokens_of(pages));
  EXPECT_EQ(rig.queue().counters().misses_timed_out, 1u);
  rig.fetch(tokens_of(pages));
  EXPECT_FALSE(rig.is_begun()) << "no other fetch waits for it";
  rig.tier().set_hanging(false);
  EXPECT_EQ(rig.take_all_when_back(tokens_of(pages)).size(), 4u);
}

TEST(TierQueue, a_tier_that_still_fails_is_not_queried) {
  Rig rig;
  const auto pages = chain_of_pages(kRoot, 32 * 4, 1, kPageBytes);
  rig.save(pages);
  rig.suspend(tokens_of(pages));
  rig.tier().set_dead(true);
  rig.tier().set_hanging(false);
  for (size_t n = 2; n < 5; ++n) {
    rig.tier().wait_for_gets(rig.tier().n_gets() + 1);  // a read by the queue itself
    rig.fetch(tokens_of(pages));
    EXPECT_FALSE(rig.is_begun());
  }
  EXPECT_EQ(rig.queue().counters().misses_timed_out, 4u);
  rig.tier().set_dead(false);
  EXPECT_EQ(rig.take_all_when_back(tokens_of(pages)).size(), 4u);
}

TEST(TierQueue, the_log_says_once_that_a_tier_cannot_be_read) {
  log::init("info");
  Rig rig;
  const auto pages = chain_of_pages(kRoot, 32 * 4, 1, kPageBytes);
  rig.save(pages);
  testing::internal::CaptureStderr();
  rig.tier().set_dead(true);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(rig.take_all(rig.fetch(tokens_of(pages))).empty());
  const std::string failing = testing::internal::GetCapturedStderr();
  testing::internal::CaptureStderr();
  rig.tier().set_dead(false);
  EXPECT_EQ(rig.take_all_when_back(tokens_of(pages)).size(), 4u);
  const std::string back = testing::internal::GetCapturedStderr();
  const std::string said = "cannot be read; prompts are computed without it";
  ASSERT_NE(failing.find(said), failing.npos) << failing;
  EXPECT_EQ(failing.find(said), failing.rfind(said)) << failing;
  EXPECT_NE(back.find("can be read again"), back.npos) << back;
}

TEST(TierQueue, a_cancelled_fetch_makes_way_for_the_next) {
  Rig rig(2);
  const auto pages = chain_of_pages(kRoot, 32 * 10, 1, kPageBytes);
  rig.save(pages);
  const FetchId first = rig.fetch(tokens_of(pages));
  rig.tier().wait_for_gets(2);
  rig.queue().cancel(first);
  EXPECT_EQ(rig.take_all(rig.fetch(tokens_of(pages))).size(), 10u);
}

TEST(TierQueue, what_is_queued_is_written_before_the_end) {
  FakeTier tier;
  PlainMemory memory;
  const auto pages = chain_of_pages(kRoot, 32 * 4, 1, kPageBytes);
  {
    TierQueue queue(tier, memory, {.page_bytes = kPageBytes}, [] {});
    for (const StoredPage& page : pages) {
      EXPECT_TRUE(queue.save(page.page, page.bytes.data()));
    }
  }
  EXPECT_EQ(tier.n_pages(), 4u);
}

}  // namespace
}  // namespace kvik
