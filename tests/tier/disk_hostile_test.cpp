#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "support/temporary_folder.h"
#include "tier/stored_pages.h"

// Tests hostile contents of a tier's folder: they may cost pages, but never prevent a start or
// block it.
namespace kvik {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr size_t kPageBytes = 5000;  // 8 KiB slots
const PageKey kRoot = root_key("a model", "");

class DiskHostile : public ::testing::Test {
 protected:
  std::unique_ptr<DiskTier> open() {
    auto tier = DiskTier::open({.folder = folder_.path(), .max_bytes = 8 << 20});
    EXPECT_TRUE(tier.has_value()) << tier.error().message;
    return tier ? std::move(*tier) : nullptr;
  }

  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }

  static unsigned mode_of(const std::string& path) {
    struct stat about {};
    EXPECT_EQ(::lstat(path.c_str(), &about), 0) << path;
    return about.st_mode & 0777u;
  }

  // Changes the index in a way that no tier does.
  void run(const char* sql) {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(path("index.db").c_str(), &database), SQLITE_OK);
    char* why = nullptr;
    EXPECT_EQ(sqlite3_exec(database, sql, nullptr, nullptr, &why), SQLITE_OK) << (why ? why : "");
    sqlite3_close(database);
  }

  void expect_all_found() {
    const auto tier = open();
    ASSERT_TRUE(tier);
    EXPECT_EQ(n_found(*tier, pages_), pages_.size());
    const auto more = chain_of_pages(kRoot, 320, 2, kPageBytes);
    ASSERT_TRUE(store(*tier, more).has_value());
    EXPECT_EQ(n_found(*tier, more), more.size());
  }

  TemporaryFolder folder_;
  const std::vector<StoredPage> pages_ = chain_of_pages(kRoot, 320, 1, kPageBytes);
};

TEST_F(DiskHostile, files_and_folders_are_the_users_alone_also_those_of_an_older_version) {
  const std::string inner = path("a/b");
  auto tier = DiskTier::open({.folder = inner, .max_bytes = 8 << 20});
  ASSERT_TRUE(tier.has_value());
  ASSERT_TRUE(store(**tier, pages_).has_value());
  EXPECT_EQ(mode_of(path("a")), 0700u);
  EXPECT_EQ(mode_of(inner), 0700u);
  const auto expect_private = [&] {
    size_t n = 0;
    for (const auto& entry : fs::directory_iterator(inner)) {
      EXPECT_EQ(mode_of(entry.path()), 0600u) << entry.path();
      ++n;
    }
    EXPECT_GE(n, 4u);  // lock, index, its log, a segment
  };
  expect_private();
  tier->reset();
  for (const auto& entry : fs::directory_iterator(inner)) ::chmod(entry.path().c_str(), 0644);
  const auto again = DiskTier::open({.folder = inner, .max_bytes = 8 << 20});
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(n_found(**again, pages_), pages_.size());
  expect_private();
}

TEST_F(DiskHostile, an_index_with_a_trigger_a_view_or_a_table_of_its_own_is_made_again) {
  for (const char* sql :
       {"CREATE TRIGGER endless AFTER INSERT ON page BEGIN INSERT INTO page SELECT randomblob(32), "
        "grp, parent, root, tokens, slot + 1, slot_bytes, n_bytes, n_children, last_use FROM "
        "page; END",
        "CREATE TRIGGER slow AFTER UPDATE ON page BEGIN SELECT count(*) FROM (WITH RECURSIVE c(x) "
        "AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c); END",
        "CREATE TABLE other (x)", "CREATE INDEX of_ours ON page (n_bytes)",
        "ALTER TABLE page RENAME TO cards; CREATE VIEW page AS WITH RECURSIVE c(x) AS (SELECT 1 "
        "UNION ALL SELECT x + 1 FROM c) SELECT x AS key FROM c"}) {
    SCOPED_TRACE(sql);
    for (const auto& entry : fs::directory_iterator(folder_.path())) fs::remove_all(entry);
    ASSERT_TRUE(store(*open(), pages_).has_value());
    run(sql);
    expect_all_found();
  }
}

TEST_F(DiskHostile, a_statement_that_never_ends_is_ended) {
  auto database = Sqlite::open(":memory:", Sqlite::Mode::kReadWrite);
  ASSERT_TRUE(database.has_value());
  constexpr const char* kEndless =
      "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c";
  const auto run = database->run(kEndless);
  ASSERT_FALSE(run.has_value());
  EXPECT_EQ(run.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(run.error().message, HasSubstr("takes too many steps"));
  auto statement = SqliteStatement::prepare(*database, kEndless);
  ASSERT_TRUE(statement.has_value());
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(statement->step().has_value());
  EXPECT_TRUE(database->run("CREATE TABLE t (x)").has_value());
}

TEST_F(DiskHostile, numbers_of_an_index_that_no_tier_writes_make_it_again) {
  ASSERT_TRUE(store(*open(), pages_).has_value());
  run("UPDATE page SET last_use = 9223372036854775807");
  expect_all_found();
}

TEST_F(DiskHostile, foreign_files_with_our_names_are_moved_away) {
  const std::string victim = path("victim");
  const auto make_folder = [](const std::string& at) { fs::create_directories(at + "/inside"); };
  const auto make_pipe = [](const std::string& at) { ASSERT_EQ(::mkfifo(at.c_str(), 0600), 0); };
  const auto make_dangling = [](const std::string& at) { fs::create_symlink("nowhere", at); };
  const auto make_link = [&](const std::string& at) { fs::create_symlink(victim, at); };
  const auto make_second_name = [&](const std::string& at) { fs::create_hard_link(victim, at); };
  const std::vector<std::function<void(const std::string&)>> makes = {
      make_folder, make_pipe, make_dangling, make_link, make_second_name};
  for (const char* name :
       {"index.db", "index.db-wal", "index.db-shm", "index.db-journal", "lock"}) {
    for (const auto& make : makes) {
      SCOPED_TRACE(name);
      for (const auto& entry : fs::directory_iterator(folder_.path())) fs::remove_all(entry);
      std::ofstream(victim) << "precious";
      ASSERT_TRUE(store(*open(), pages_).has_value());
      fs::remove(path(name));
      make(path(name));
      expect_all_found();
      EXPECT_EQ(fs::file_size(victim), 8u);
      EXPECT_FALSE(fs::exists(path("nowhere")));
    }
  }
}

TEST_F(DiskHostile, a_lock_with_a_second_name_still_keeps_others_out) {
  const auto tier = open();
  fs::create_hard_link(path("lock"), path("snapshot"));
  EXPECT_FALSE(DiskTier::open({.folder = folder_.path(), .max_bytes = 8 << 20}).has_value());
  EXPECT_TRUE(store(*tier, pages_).has_value());
}

TEST_F(DiskHostile, an_index_that_was_removed_is_made_again) {
  ASSERT_TRUE(store(*open(), pages_).has_value());
  fs::remove(path("index.db"));
  expect_all_found();
}

TEST_F(DiskHostile, a_probe_writes_through_no_link) {
  const std::string victim = path("victim");
  std::ofstream(victim) << "precious";
  fs::create_symlink(victim, path("probe"));
  EXPECT_TRUE(open()->recover().has_value());
  EXPECT_EQ(fs::file_size(victim), 8u);
}

TEST_F(DiskHostile, foreign_files_with_segment_names_are_ignored) {
  ASSERT_TRUE(store(*open(), pages_).has_value());
  fs::create_directories(path("00000002-8192.segment/inside"));
  ASSERT_EQ(::mkfifo(path("00000003-8192.segment").c_str(), 0600), 0);
  fs::create_symlink("nowhere", path("00000004-8192.segment"));
  fs::create_symlink(path("lock"), path("00000005-8192.segment"));
  for (const char* name : {"00000006-8192.segment", "00000007-4096.segment"}) {  // sparse
    std::ofstream(path(name)).flush();
    fs::resize_file(path(name), uintmax_t{1} << 40);
  }
  std::ofstream(path("00000008-18446744073709547520.segment")) << "x";
  std::ofstream(path("4294967295-8192.segment")) << "x";
  expect_all_found();
  EXPECT_FALSE(fs::exists(path("nowhere")));
  EXPECT_EQ(fs::file_size(path("00000006-8192.segment")), uintmax_t{1} << 40);
}

TEST_F(DiskHostile, the_last_number_of_a_segment_is_not_the_end) {
  std::ofstream(path("2147483647-8192.segment")) << std::string(8192, 'x');
  const auto tier = DiskTier::open({.folder = folder_.path(), .max_bytes = 8 << 20});
  ASSERT_TRUE(tier.has_value());
  ASSERT_TRUE(store(**tier, pages_).has_value());
  EXPECT_EQ(n_found(**tier, pages_), pages_.size());
}

TEST_F(DiskHostile, looking_at_a_folder_waits_for_no_pipe_and_runs_nothing_of_its_own) {
  ASSERT_TRUE(store(*open(), pages_).has_value());
  ASSERT_EQ(::mkfifo(path("00000009-8192.segment").c_str(), 0600), 0);
  const auto report = inspect_disk_tier(folder_.path());
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->totals.n_pages, pages_.size());
  run("CREATE VIEW mine AS SELECT 1");
  EXPECT_FALSE(inspect_disk_tier(folder_.path()).has_value());
  fs::remove(path("index.db"));
  ASSERT_EQ(::mkfifo(path("index.db").c_str(), 0600), 0);
  EXPECT_FALSE(inspect_disk_tier(folder_.path()).has_value());
}

}  // namespace
}  // namespace kvik
