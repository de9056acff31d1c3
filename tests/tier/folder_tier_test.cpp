#include "tier/folder_tier.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "support/temporary_folder.h"
#include "tier/page_record.h"
#include "tier/stored_pages.h"

namespace kvik {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPageBytes = 5000;
const PageKey kRoot = root_key("a model", "");

FolderTier tier_of(const TemporaryFolder& folder) { return FolderTier({.folder = folder.path()}); }

std::vector<fs::path> files_of(const TemporaryFolder& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
    if (entry.is_regular_file() && entry.path().extension() != ".key")
      files.push_back(entry.path());
  }
  return files;
}

void make_older(const fs::path& file, std::chrono::hours by) {
  fs::last_write_time(file, fs::last_write_time(file) - by);
}

// Works until a sweep has ended.
SweepCount sweep(FolderSweep& sweep) {
  sweep.set_lease_after_for_test(std::chrono::hours(1));
  while (true) {
    if (const auto counted = sweep.work()) return *counted;
  }
}

// Returns whether the name of any file or folder contains the text.
bool is_named(const TemporaryFolder& folder, const std::string& text) {
  for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
    if (entry.path().native().contains(text)) return true;
  }
  return false;
}

unsigned mode_of(const fs::path& path) {
  return static_cast<unsigned>(fs::status(path).permissions());
}

TEST(FolderTier, file_names_reveal_nothing_about_prompts) {
  const TemporaryFolder folder, other;
  auto tier = tier_of(folder);
  const auto pages = chain_of_pages(kRoot, 96, 1, kPageBytes);
  ASSERT_TRUE(store(tier, pages).has_value());
  for (const StoredPage& page : pages) {
    EXPECT_FALSE(is_named(folder, to_hex(page.page.parent.bytes).substr(0, 16)));
    EXPECT_FALSE(is_named(folder, to_hex(page.page.key.bytes).substr(0, 16)));
  }
  auto same = tier_of(other);
  ASSERT_TRUE(store(same, pages).has_value());
  for (const fs::path& file : files_of(folder))  // a file name cannot confirm a suspected prompt
    EXPECT_FALSE(is_named(other, file.filename()));
}

TEST(FolderTier, others_may_not_even_list_its_folders) {
  const TemporaryFolder folder;
  const mode_t old = ::umask(0);
  FolderTier tier({.folder = folder.path() + "/new"});
  const auto stored = store(tier, chain_of_pages(kRoot, 96, 1, kPageBytes));
  ::umask(old);
  ASSERT_TRUE(stored.has_value());
  for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
    EXPECT_EQ(mode_of(entry.path()), entry.is_directory() ? 0700u : 0600u) << entry.path();
}

TEST(FolderTier, a_group_may_share_it_whatever_the_umask) {
  const TemporaryFolder folder;
  const mode_t old = ::umask(077);
  FolderTier tier({.folder = folder.path() + "/new", .mode = 02770});
  const auto stored = store(tier, chain_of_pages(kRoot, 96, 1, kPageBytes));
  ::umask(old);
  ASSERT_TRUE(stored.has_value());
  for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
    EXPECT_EQ(mode_of(entry.path()), entry.is_directory() ? 02770u : 0660u) << entry.path();
}

TEST(FolderTier, servers_that_begin_at_once_agree_on_names) {
  const TemporaryFolder folder;
  const auto pages = chain_of_pages(kRoot, 320, 1, kPageBytes);
  std::vector<std::thread> servers;
  for (int i = 0; i < 8; ++i) {
    servers.emplace_back([&] {
      auto tier = tier_of(folder);
      EXPECT_TRUE(store(tier, pages).has_value());
    });
  }
  for (std::thread& server : servers) server.join();
  EXPECT_EQ(files_of(folder).size(), 10u);
}

TEST(FolderTier, what_an_earlier_version_stored_is_a_miss_and_swept) {
  const TemporaryFolder folder;
  const fs::path old = fs::path(folder.path()) / "pages" / "ab" / "abcd-0";
  fs::create_directories(old);
  std::ofstream(old / "AAAAAAAA") << "a page";
  auto tier = tier_of(folder);
  const auto pages = chain_of_pages(kRoot, 32, 1, kPageBytes);
  EXPECT_EQ(look_up(tier, pages[0]), Tier::Get::kAbsent);
  ASSERT_TRUE(store(tier, pages).has_value());
  FolderSweep sweeper(folder.path(), uint64_t{1} << 30, folder.path() + "/pages/");
  EXPECT_EQ(sweep(sweeper).n_removed, 1u);
  for (int i = 0; i < 3; ++i) sweep(sweeper);  // each sweep removes one level of empty folders
  EXPECT_FALSE(fs::exists(folder.path() + "/pages"));
  EXPECT_EQ(look_up(tier, pages[0]), Tier::Get::kFound);
}

TEST(FolderTier, a_folder_that_was_emptied_is_filled_again) {
  const TemporaryFolder folder;
  auto tier = tier_of(folder);
  const auto pages = chain_of_pages(kRoot, 96, 1, kPageBytes);
  ASSERT_TRUE(store(tier, pages).has_value());
  fs::remove_all(folder.path() + "/kv");
  ASSERT_TRUE(tier.recover().has_value());
  EXPECT_EQ(n_found(tier, pages), 0u);
  ASSERT_TRUE(store(tier, pages).has_value());
  EXPECT_EQ(n_found(tier, pages), 3u);
  auto other = tier_of(folder);
  EXPECT_EQ(n_found(other, pages), 3u);
}

TEST(FolderTier, a_forged_mark_gives_no_access) {
  const TemporaryFolder folder;
  FolderTier tier({.folder = folder.path(), .mark_key = "secret"});
  auto pages = chain_of_pages(kRoot, 32, 1, kPageBytes);
  pages[0].page.known = SharingMark{7};
  ASSERT_TRUE(store(tier, pages).has_value());
  const fs::path file = files_of(folder).at(0);
  AlignedBytes slot(512 + kPageBytes, 64);
  std::ranges::copy(pages[0].bytes, slot.span().subspan(512).begin());
  TierPage forged = pages[0].page;
  forged.known = SharingMark::kAll;
  write_record_head(forged, kPageBytes, slot.span());
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(slot.span().data()),
             static_cast<std::streamsize>(slot.span().size()));
  EXPECT_EQ(look_up(tier, pages[0], SharingMark{8}), Tier::Get::kAbsent);
  EXPECT_TRUE(tier.children(kRoot, 0, SharingMark{8}, 10).empty());
  ASSERT_TRUE(store(tier, pages).has_value());  // stores its own page again
  EXPECT_EQ(look_up(tier, pages[0], SharingMark{7}), Tier::Get::kFound);
  EXPECT_EQ(look_up(tier, pages[0], SharingMark{8}), Tier::Get::kAbsent);
}

TEST(FolderTier, gives_one_server_what_another_one_put) {
  const TemporaryFolder folder;
  auto one = tier_of(folder);
  auto other = tier_of(folder);
  const auto pages = chain_of_pages(kRoot, 330, 1, kPageBytes);
  EXPECT_EQ(n_found(other, pages), 0u);
  ASSERT_TRUE(store(one, pages).has_value());
  ASSERT_TRUE(store(other, pages).has_value());
  EXPECT_EQ(n_found(other, pages), 11u);
  EXPECT_EQ(files_of(folder).size(), 11u);
}

TEST(FolderTier, keeps_its_files_from_others_on_the_machine) {
  const TemporaryFolder folder;
  auto tier = tier_of(folder);
  ASSERT_TRUE(store(tier, chain_of_pages(kRoot, 32, 1, kPageBytes)).has_value());
  EXPECT_EQ(fs::status(files_of(folder).at(0)).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
}

TEST(FolderTier, torn_and_foreign_files_are_misses_and_are_replaced) {
  const TemporaryFolder folder;
  auto tier = tier_of(folder);
  const auto pages = chain_of_pages(kRoot, 32, 1, kPageBytes);
  ASSERT_TRUE(store(tier, pages).has_value());
  const fs::path file = files_of(folder).at(0);
  const auto put_in_place = [&](auto&& make) {
    fs::remove(file);
    make();
    const Tier::Get got = look_up(tier, pages[0]);
    EXPECT_TRUE(got == Tier::Get::kDamaged || got == Tier::Get::kFailed);
    if (fs::is_directory(file)) fs::remove(file);
    ASSERT_TRUE(store(tier, pages).has_value());
    EXPECT_EQ(look_up(tier, pages[0]), Tier::Get::kFound);
  };
  put_in_place([&] { std::ofstream(file) << "no page"; });
  put_in_place([&] { std::ofstream(file) << std::string(kPageBytes + 512, 'x'); });
  put_in_place([&] { ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0); });
  put_in_place([&] { fs::create_symlink("/etc/passwd", file); });
  put_in_place([&] { fs::create_symlink("nowhere", file); });
  put_in_place([&] { fs::create_directory(file); });
  put_in_place([&] {  // a sparse file of a terabyte
    std::ofstream(file).put('x');
    fs::resize_file(file, uint64_t{1} << 40);
  });
  put_in_place([&] {  // another page's bytes
    const auto others = chain_of_pages(kRoot, 32, 2, kPageBytes);
    ASSERT_TRUE(store(tier, others).has_value());
    for (const fs::path& other : files_of(folder))
      fs::copy_file(other, file, fs::copy_options::skip_existing);
  });
}

TEST(FolderTier, a_partly_written_page_is_absent) {
  const TemporaryFolder folder;
  auto tier = tier_of(folder);
  const auto pages = chain_of_pages(kRoot, 32, 1, kPageBytes);
  ASSERT_TRUE(store(tier, pages).has_value());
  const fs::path file = files_of(folder).at(0);
  fs::rename(file, file.parent_path() / ".0123-1.new");
  EXPECT_EQ(look_up(tier, pages[0]), Tier::Get::kAbsent);
  EXPECT_TRUE(tier.children(kRoot, 0, SharingMark::kAll, 10).empty());
}

TEST(FolderTier, recovers_when_its_folder_is_back) {
  const TemporaryFolder folder;
  const fs::path place = fs::path(folder.path()) / "mount";
  std::ofstream(place) << "not mounted";
  FolderTier tier({.folder = place});
  const auto pages = chain_of_pages(kRoot, 64, 1, kPageBytes);
  EXPECT_FALSE(store(tier, pages).has_value());
  EXPECT_FALSE(tier.recover().has_value());
  EXPECT_EQ(look_up(tier, pages[0]), Tier::Get::kAbsent);
  fs::remove(place);
  EXPECT_TRUE(tier.recover().has_value());
  EXPECT_TRUE(store(tier, pages).has_value());
  EXPECT_EQ(n_found(tier, pages), 2u);
}

TEST(FolderSweep, removes_what_was_not_used_for_longest_until_the_size_is_kept) {
  const TemporaryFolder folder;
  auto tier = tier_of(folder);
  const auto pages = chain_of_pages(kRoot, 32 * 20, 1, kPageBytes);
  ASSERT_TRUE(store(tier, pages).has_value());
  const auto files = files_of(folder);
  for (size_t i = 0; i < 10; ++i) make_older(files[i], std::chrono::hours(20 + i));
  const uint64_t each = fs::file_size(files[0]);
  FolderSweep sweeper(folder.path(), 15 * each);
  const SweepCount counted = sweep(sweeper);
  EXPECT_GE(counted.n_removed, 6u);  // keeps a tenth of the size free
  EXPECT_LE(counted.n_removed, 7u);
  EXPECT_EQ(counted.n_files, 20 - counted.n_removed);
  EXPECT_EQ(counted.n_bytes, counted.n_files * each);
  for (size_t i = 10; i < 20; ++i) EXPECT_TRUE(fs::exists(files[i])) << "a younger one";
  EXPECT_EQ(n_found(tier, pages), counted.n_files);
}

TEST(FolderSweep, leaves_alone_what_is_used_and_fits) {
  const TemporaryFolder folder;
  auto tier = tier_of(folder);
  ASSERT_TRUE(store(tier, chain_of_pages(kRoot, 320, 1, kPageBytes)).has_value());
  FolderSweep sweeper(folder.path(), 1 << 20);
  const SweepCount counted = sweep(sweeper);
  EXPECT_EQ(counted.n_files, 10u);
  EXPECT_EQ(counted.n_removed, 0u);
}

TEST(FolderSweep, old_pages_and_abandoned_temporary_files_are_removed) {
  const TemporaryFolder folder;
  auto tier = tier_of(folder);
  ASSERT_TRUE(store(tier, chain_of_pages(kRoot, 96, 1, kPageBytes)).has_value());
  const auto files = files_of(folder);
  make_older(files[0], std::chrono::hours(31 * 24));
  const fs::path draft = files[1].parent_path() / ".0123-1.new";
  std::ofstream(draft) << "half a page";
  make_older(draft, std::chrono::hours(2));
  FolderSweep sweeper(folder.path(), uint64_t{1} << 30);
  EXPECT_EQ(sweep(sweeper).n_removed, 2u);
  EXPECT_FALSE(fs::exists(files[0]));
  EXPECT_FALSE(fs::exists(draft));
  sweep(sweeper);
  EXPECT_FALSE(fs::exists(files[0].parent_path())) << "a folder that became empty goes too";
}

TEST(FolderSweep, reading_a_page_keeps_it) {
  const TemporaryFolder folder;
  auto tier = tier_of(folder);
  const auto pages = chain_of_pages(kRoot, 32, 1, kPageBytes);
  ASSERT_TRUE(store(tier, pages).has_value());
  const fs::path file = files_of(folder).at(0);
  make_older(file, std::chrono::hours(31 * 24));
  EXPECT_EQ(look_up(tier, pages[0]), Tier::Get::kFound);
  FolderSweep sweeper(folder.path(), uint64_t{1} << 30);
  EXPECT_EQ(sweep(sweeper).n_removed, 0u);
}

TEST(FolderSweep, another_server_takes_over_the_sweep) {
  const TemporaryFolder folder;
  auto tier = tier_of(folder);
  ASSERT_TRUE(store(tier, chain_of_pages(kRoot, 32, 1, kPageBytes)).has_value());
  FolderSweep one(folder.path(), 1 << 20);
  sweep(one);
  FolderSweep other(folder.path(), 1 << 20);
  other.set_lease_after_for_test(std::chrono::hours(1));
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(other.work().has_value());
  other.set_lease_after_for_test(std::chrono::milliseconds(20));
  EXPECT_FALSE(other.work().has_value());
  std::this_thread::sleep_for(std::chrono::milliseconds(25));
  bool has_swept = false;
  for (int i = 0; i < 20; ++i) has_swept = other.work().has_value() || has_swept;
  EXPECT_TRUE(has_swept);
  one.set_lease_after_for_test(std::chrono::hours(1));
  for (int i = 0; i < 20; ++i)
    EXPECT_FALSE(one.work().has_value()) << "the lease is the other's now";
}

}  // namespace
}  // namespace kvik
