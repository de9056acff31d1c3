#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/log.h"
#include "support/temporary_folder.h"
#include "tier/stored_pages.h"

// Tests damage on disk: flipped bits, and a process that is killed at any moment.
namespace kvik {
namespace {

constexpr size_t kPageBytes = 3000;
const PageKey kRoot = root_key("a model", "");

bool is_long() { return std::getenv("KVIK_TEST_LONG") != nullptr; }

std::unique_ptr<DiskTier> open_tier(const TemporaryFolder& folder) {
  auto tier = DiskTier::open({.folder = folder.path(), .max_bytes = 4 << 20});
  return tier ? std::move(*tier) : nullptr;
}

using Files = std::map<std::string, std::string>;

Files read_files(const TemporaryFolder& folder) {
  Files files;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().filename()] = {std::istreambuf_iterator<char>(file), {}};
  }
  return files;
}

void write_files(const TemporaryFolder& folder, const Files& files) {
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    std::filesystem::remove(entry.path());
  }
  for (const auto& [name, bytes] : files) {
    std::ofstream(folder.path() + "/" + name, std::ios::binary) << bytes;
  }
}

// Flips bits in the used parts of the files; empty slots are not touched.
void flip_bits(const TemporaryFolder& folder, const Files& files, size_t n_flips) {
  const auto pages = chain_of_pages(kRoot, 32 * 6 + 9, 1, kPageBytes);
  std::mt19937 random(7);
  size_t n_missed = 0;
  std::vector<const Files::value_type*> targets;
  for (const auto& file : files) {
    if (file.first != "lock" && !file.second.empty()) targets.push_back(&file);
  }
  for (size_t i = 0; i < n_flips; ++i) {
    write_files(folder, files);
    const auto& [name, bytes] = *targets[random() % targets.size()];
    const size_t n_used = name.ends_with(".segment") ? pages.size() * 4096 : bytes.size();
    const auto at = static_cast<std::streamoff>(random() % std::min(n_used, bytes.size()));
    {
      std::fstream file(folder.path() + "/" + name,
                        std::ios::binary | std::ios::in | std::ios::out);
      file.seekp(at);
      file.put(static_cast<char>(bytes[static_cast<size_t>(at)] ^ (1 << random() % 8)));
    }
    const auto tier = open_tier(folder);
    if (!tier) continue;  // open() reported the damage, and nothing is read from the tier
    // look_up() checks the bytes of each page that is found.
    n_missed += pages.size() - n_found(*tier, pages);
    for (const Tier::Child& child : tier->children(kRoot, 0, SharingMark::kAll, 10)) {
      EXPECT_LE(child.tokens.size(), kPageTokens);
    }
  }
  EXPECT_GT(n_missed, n_flips / 10) << "flips must have hit something";
  EXPECT_LT(n_missed, n_flips * pages.size());
}

TEST(DiskDamage, no_flipped_bit_in_segments_or_index_changes_a_page) {
  log::init("error");
  const TemporaryFolder folder;
  ASSERT_TRUE(store(*open_tier(folder), chain_of_pages(kRoot, 32 * 6 + 9, 1, kPageBytes)));
  Files files = read_files(folder);
  for (auto& [name, bytes] : files) {
    if (name.ends_with(".segment")) bytes.resize(16 * 4096);
  }
  flip_bits(folder, files, is_long() ? 80'000 : 150);
}

TEST(DiskDamage, no_flipped_bit_in_a_log_that_was_not_checkpointed_changes_a_page) {
  log::init("error");
  Files files;
  {
    const TemporaryFolder folder;
    const auto tier = open_tier(folder);
    ASSERT_TRUE(store(*tier, chain_of_pages(kRoot, 32 * 6 + 9, 1, kPageBytes)));
    files = read_files(folder);  // the state that a killed process leaves
  }
  for (auto& [name, bytes] : files) {
    if (name.ends_with(".segment")) bytes.resize(16 * 4096);
  }
  const TemporaryFolder folder;
  flip_bits(folder, files, is_long() ? 20'000 : 100);
}

// A child process stores pages as fast as it can until it is killed.
TEST(DiskDamage, a_process_that_is_killed_while_it_writes_leaves_whole_pages) {
  const TemporaryFolder folder;
  std::mt19937 random(3);
  const int n_kills = is_long() ? 300 : 20;
  size_t n_pages = 0;
  // On a slow machine the children store little, so there are more of them.
  const auto have_stored = [&] { return n_pages > 100; };
  for (int kill_number = 0; kill_number < n_kills || (!have_stored() && kill_number < 20 * n_kills);
       ++kill_number) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const auto tier = open_tier(folder);
      if (!tier) ::_exit(3);
      for (uint32_t seed = 0;; ++seed) {
        const auto pages = chain_of_pages(
            kRoot, 300, static_cast<uint32_t>(kill_number) * 1000 + seed, kPageBytes);
        if (!store(*tier, pages)) ::_exit(4);
      }
    }
    ::usleep(static_cast<useconds_t>(random() % 30'000));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself: " << WEXITSTATUS(status);
    const auto tier = open_tier(folder);
    ASSERT_NE(tier, nullptr);
    const auto whole = tier->verify();
    ASSERT_TRUE(whole.has_value());
    EXPECT_EQ(whole->n_damaged, 0u) << "after kill " << kill_number;
    n_pages = std::max<size_t>(n_pages, whole->n_pages);
  }
  EXPECT_TRUE(have_stored()) << n_pages;
}

}  // namespace
}  // namespace kvik
