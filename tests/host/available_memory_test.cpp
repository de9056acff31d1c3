#include "host/available_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/temporary_folder.h"

namespace kvik {
namespace {

// A machine with 16 GiB, of which 9 GiB are available, and the control groups that a test adds.
class AvailableMemory : public testing::Test {
 protected:
  AvailableMemory() {
    write("proc/meminfo",
          "MemTotal:       16777216 kB\nMemFree:        1048576 kB\nMemAvailable:   9437184 kB\n");
  }

  void write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = root.path() + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  uint64_t available() const { return available_memory_bytes(folders).value_or(0); }
  uint64_t machine() const { return machine_memory_bytes(folders).value_or(0); }

  TemporaryFolder root;
  SystemFolders folders{.proc = root.path() + "/proc", .groups = root.path() + "/groups"};
};

constexpr uint64_t kOneGiB = uint64_t{1} << 30;

TEST_F(AvailableMemory, is_that_of_the_machine_without_groups) {
  EXPECT_EQ(available(), 9 * kOneGiB);
  EXPECT_EQ(machine(), 16 * kOneGiB);
}

TEST_F(AvailableMemory, unlimited_group_changes_nothing) {
  write("proc/self/cgroup", "0::/user.slice\n");
  write("groups/user.slice/memory.max", "max\n");
  write("groups/user.slice/memory.high", "max\n");
  write("groups/user.slice/memory.current", "123456789\n");
  EXPECT_EQ(available(), 9 * kOneGiB);
  EXPECT_EQ(machine(), 16 * kOneGiB);
}

// The file cache of a group can be dropped, so it does not count as used.
TEST_F(AvailableMemory, container_has_its_limit_less_what_it_uses) {
  write("proc/self/cgroup", "0::/\n");
  write("groups/memory.max", "4294967296\n");
  write("groups/memory.current", "3221225472\n");
  write("groups/memory.stat", "anon 1073741824\nfile 2147483648\ninactive_file 2147483648\n");
  EXPECT_EQ(available(), 3 * kOneGiB);
  EXPECT_EQ(machine(), 4 * kOneGiB);
}

TEST_F(AvailableMemory, limit_of_a_group_above_counts) {
  write("proc/self/cgroup", "0::/system.slice/kvik.service\n");
  write("groups/system.slice/kvik.service/memory.max", "max\n");
  write("groups/system.slice/memory.max", "8589934592\n");
  write("groups/system.slice/memory.current", "2147483648\n");
  EXPECT_EQ(available(), 6 * kOneGiB);
  EXPECT_EQ(machine(), 8 * kOneGiB);
}

TEST_F(AvailableMemory, group_that_is_slowed_down_has_less_available) {
  write("proc/self/cgroup", "0::/a\n");
  write("groups/a/memory.max", "max\n");
  write("groups/a/memory.high", "2147483648\n");
  write("groups/a/memory.current", "0\n");
  EXPECT_EQ(available(), 2 * kOneGiB);
  EXPECT_EQ(machine(), 16 * kOneGiB);
}

TEST_F(AvailableMemory, groups_of_version_1_count) {
  write("proc/self/cgroup", "5:cpu:/b\n4:memory:/docker/abc\n0::/\n");
  write("groups/memory/docker/abc/memory.limit_in_bytes", "5368709120\n");
  write("groups/memory/docker/abc/memory.usage_in_bytes", "2147483648\n");
  write("groups/memory/docker/abc/memory.stat", "cache 1\ntotal_inactive_file 1073741824\n");
  EXPECT_EQ(available(), 4 * kOneGiB);
  EXPECT_EQ(machine(), 5 * kOneGiB);
}

TEST_F(AvailableMemory, full_group_has_nothing_left) {
  write("proc/self/cgroup", "0::/\n");
  write("groups/memory.max", "1073741824\n");
  write("groups/memory.current", "2147483648\n");
  EXPECT_EQ(available(), 0u);
}

}  // namespace
}  // namespace kvik
