#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "backend/page_kinds.h"
#include "backend/random_matrix.h"

// Sequences that lease the same pages are attended together, with the same bits as alone.
namespace kvik {
namespace {

using testing::kPageKinds;
using testing::OwnedRows;
using testing::PageKind;
using testing::random_floats;
using testing::same_bytes;

constexpr uint32_t kHeadDim = 24, kKvHeads = 2, kGroup = 3, kHeads = kKvHeads * kGroup;
constexpr size_t kWidth = size_t{kHeads} * kHeadDim, kKvWidth = size_t{kKvHeads} * kHeadDim;

std::unique_ptr<Backend> backend_of(std::string_view isa, uint32_t n_threads) {
  auto backend = make_cpu_backend({n_threads, std::string(isa)});
  EXPECT_TRUE(backend);
  return std::move(*backend);
}

struct UserTokens {
  uint32_t n_shared;  // tokens of whole pages shared by all sequences
  uint32_t n_own;     // tokens after them
  uint32_t n_rows;    // number of last tokens that are attended
  uint32_t n_tokens() const { return n_shared + n_own; }
};

enum class Prefix { kShared, kCopied };

// Sequences with a common prefix. Its pages are shared or copied.
class Users {
 public:
  Users(Backend& backend, PageKind kind, std::vector<UserTokens> tokens_of_users, Prefix prefix)
      : backend_(backend),
        kind_(kind),
        geometry_{.type = kind.type,
                  .n_layers = 1,
                  .n_kv_heads = kKvHeads,
                  .head_dim = kHeadDim,
                  .keys_by_channel = kind.keys_by_channel()},
        tokens_of_users_(std::move(tokens_of_users)) {
    uint32_t n_shared = 0;
    for (const UserTokens& tokens : tokens_of_users_)
      n_shared = std::max(n_shared, tokens.n_shared);
    std::vector<std::byte*> shared = new_pages(n_shared);
    const std::vector<std::byte*> open_of_prefix = new_open_pages(n_shared);
    write(shared, open_of_prefix, 0, n_shared, 1);
    for (size_t i = 0; i < tokens_of_users_.size(); ++i) {
      const UserTokens& tokens = tokens_of_users_[i];
      std::vector<std::byte*> table(shared.begin(), shared.begin() + tokens.n_shared / kPageTokens);
      if (prefix == Prefix::kCopied) {
        table = new_pages(tokens.n_shared);
        write(table, open_of_prefix, 0, tokens.n_shared, 1);
      }
      for (std::byte* page : new_pages(tokens.n_own)) table.push_back(page);
      open_.push_back(new_open_pages(tokens.n_own));
      write(table, open_.back(), tokens.n_shared, tokens.n_own, static_cast<uint32_t>(10 + i));
      queries_.push_back(random_floats(tokens.n_rows * kWidth, static_cast<uint32_t>(100 + i)));
      tables_.push_back(std::move(table));
    }
  }

  // Attends all sequences in one batch.
  std::vector<float> attend_together(uint32_t window) {
    std::vector<KvRun> runs;
    std::vector<float> q;
    for (size_t i = 0; i < tokens_of_users_.size(); ++i) {
      runs.push_back(run_of(i, static_cast<uint32_t>(q.size() / kWidth)));
      q.insert(q.end(), queries_[i].begin(), queries_[i].end());
    }
    return attend(runs, q, window);
  }
  // Attends the sequences one after the other.
  std::vector<float> attend_alone(uint32_t window) {
    std::vector<float> all;
    for (size_t i = 0; i < tokens_of_users_.size(); ++i) {
      const KvRun run = run_of(i, 0);
      const std::vector<float> out = attend({&run, 1}, queries_[i], window);
      all.insert(all.end(), out.begin(), out.end());
    }
    return all;
  }

 private:
  std::vector<std::byte*> new_pages(uint32_t n_tokens) {
    std::vector<std::byte*> pages;
    for (uint32_t first = 0; first < n_tokens; first += kPageTokens) {
      buffers_.push_back(backend_.memory().allocate(backend_.page_bytes(geometry_)));
      pages.push_back(buffers_.back().data());
    }
    return pages;
  }
  std::vector<std::byte*> new_open_pages(uint32_t n_tokens) {
    const KvGeometry open = geometry_.of_open_pages();
    std::vector<std::byte*> pages;
    for (uint32_t first = 0; kind_.open && first < n_tokens; first += kPageTokens) {
      buffers_.push_back(backend_.memory().allocate(backend_.page_bytes(open)));
      pages.push_back(buffers_.back().data());
    }
    return pages;
  }
  void write(const std::vector<std::byte*>& table, const std::vector<std::byte*>& open,
             uint32_t first, uint32_t n, uint32_t seed) {
    if (n == 0) return;
    OwnedRows k(backend_.memory(), n, kKvWidth, random_floats(n * kKvWidth, seed));
    OwnedRows v(backend_.memory(), n, kKvWidth, random_floats(n * kKvWidth, seed + 1000));
    const KvRun run{table, first, 0, n, open};
    backend_.write_kv({geometry_, 0, {&run, 1}}, k.rows, v.rows);
  }
  KvRun run_of(size_t i, uint32_t first_row) const {
    const UserTokens& tokens = tokens_of_users_[i];
    const uint32_t first = tokens.n_tokens() - tokens.n_rows;
    KvRun run = {tables_[i], first, first_row, tokens.n_rows};
    if (kind_.open) {
      run.open = std::span(open_[i]).subspan((first - tokens.n_shared) / kPageTokens);
    }
    return run;
  }
  std::vector<float> attend(std::span<const KvRun> runs, const std::vector<float>& queries,
                            uint32_t window) {
    const auto n_rows = static_cast<uint32_t>(queries.size() / kWidth);
    OwnedRows q(backend_.memory(), n_rows, kWidth, queries);
    OwnedRows out(backend_.memory(), n_rows, kWidth);
    backend_.attention({geometry_, 0, runs}, {.n_heads = kHeads, .scale = 0.3f, .window = window},
                       q.rows, out.rows);
    return out.values();
  }

  Backend& backend_;
  const PageKind kind_;
  const KvGeometry geometry_;
  const std::vector<UserTokens> tokens_of_users_;
  std::vector<Buffer> buffers_;
  std::vector<std::vector<std::byte*>> tables_;
  std::vector<std::vector<std::byte*>> open_;  // open pages of each sequence's own tokens
  std::vector<std::vector<float>> queries_;
};

// Compares on every instruction set and KV type: together, alone, and with copies of the pages.
void check(const std::vector<UserTokens>& tokens_of_users, uint32_t window) {
  for (const PageKind kind : kPageKinds) {
    std::vector<float> first;
    for (const std::string_view isa : cpu_isa_names()) {
      const auto backend = backend_of(isa, 3);
      Users shared(*backend, kind, tokens_of_users, Prefix::kShared);
      Users copied(*backend, kind, tokens_of_users, Prefix::kCopied);
      if (first.empty()) first = copied.attend_alone(window);
      EXPECT_TRUE(same_bytes(shared.attend_together(window), first)) << isa << name_of(kind);
      if (isa == "scalar") continue;  // slow, and covered by the other sets
      EXPECT_TRUE(same_bytes(copied.attend_together(window), first)) << isa << name_of(kind);
      EXPECT_TRUE(same_bytes(shared.attend_alone(window), first)) << isa << name_of(kind);
    }
  }
}

TEST(SharedPages, decoding_users_of_one_prefix_have_the_bits_they_have_alone) {
  std::vector<UserTokens> tokens_of_users;
  for (uint32_t i = 0; i < 19; ++i) tokens_of_users.push_back({576, 1 + 7 * i, 1});
  check(tokens_of_users, 0);
}

TEST(SharedPages, prefixes_of_different_lengths_and_small_chunks_too) {
  check({{1056, 3, 1},
         {64, 1, 1},
         {1056, 40, 8},
         {512, 200, 5},
         {1024, 16, 16},
         {0, 300, 1},
         {0, 20, 20}},
        0);
}

TEST(SharedPages, long_prompts_beside_them_change_nothing) {
  check({{544, 2, 1}, {544, 100, 60}, {544, 5, 1}}, 0);
}

TEST(SharedPages, within_a_window_too) {
  for (const uint32_t window : {16, 40, 530}) {
    check({{1056, 3, 1}, {1056, 50, 1}, {1024, 9, 4}, {96, 1, 1}}, window);
  }
}

}  // namespace
}  // namespace kvik
