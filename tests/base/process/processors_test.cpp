#include "base/process/processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/temporary_folder.h"

namespace kvik {
namespace {

// A machine with the processors that this process may use, and the topology and groups that a test
// adds.
class UsableCores : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = root.path() + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  // Writes the topology of a machine whose processors 2 i and 2 i + 1 are one core.
  void pair_processors(const std::string& file) {
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      const int first = i - i % 2;
      write("cpu/cpu" + std::to_string(i) + "/topology/" + file,
            std::to_string(first) + "-" + std::to_string(first + 1) + "\n");
    }
  }

  // Returns the number of pairs of processors of which this process may use at least one.
  static uint32_t n_usable_pairs() {
    cpu_set_t set;
    EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
    uint32_t n = 0;
    for (size_t i = 0; i < CPU_SETSIZE; i += 2) n += CPU_ISSET(i, &set) || CPU_ISSET(i + 1, &set);
    return n;
  }

  uint32_t cores() const { return usable_cores(folders); }

  TemporaryFolder root;
  SystemFolders folders{.proc = root.path() + "/proc",
                        .groups = root.path() + "/groups",
                        .processors = root.path() + "/cpu"};
};

TEST_F(UsableCores, are_processors_where_the_topology_is_unknown) {
  EXPECT_EQ(cores(), usable_processors());
}

TEST_F(UsableCores, threads_of_one_core_count_once) {
  pair_processors("core_cpus_list");
  EXPECT_EQ(cores(), n_usable_pairs());
}

TEST_F(UsableCores, topology_of_older_systems_is_read) {
  pair_processors("thread_siblings_list");
  EXPECT_EQ(cores(), n_usable_pairs());
}

TEST_F(UsableCores, processors_outside_the_affinity_do_not_count) {
  cpu_set_t allowed, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(sched_getcpu()), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(cores(), 1u);
  EXPECT_EQ(usable_processors(), 1u);
  ASSERT_EQ(sched_setaffinity(0, sizeof(allowed), &allowed), 0);
}

TEST_F(UsableCores, quota_of_a_group_above_counts) {
  write("proc/self/cgroup", "0::/system.slice/kvik.service\n");
  write("groups/system.slice/kvik.service/cpu.max", "max 100000\n");
  write("groups/system.slice/cpu.max", "190000 100000\n");
  EXPECT_EQ(cores(), 1u);
}

TEST_F(UsableCores, less_than_one_processor_is_one_core) {
  write("proc/self/cgroup", "0::/\n");
  write("groups/cpu.max", "20000 100000\n");
  EXPECT_EQ(cores(), 1u);
}

TEST_F(UsableCores, quota_of_version_1_counts) {
  write("proc/self/cgroup", "4:memory:/b\n3:cpu,cpuacct:/docker/abc\n0::/\n");
  write("groups/cpu/docker/abc/cpu.cfs_quota_us", "150000\n");
  write("groups/cpu/docker/abc/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cores(), 1u);
}

TEST_F(UsableCores, group_without_a_quota_changes_nothing) {
  write("proc/self/cgroup", "3:cpu,cpuacct:/\n0::/a\n");
  write("groups/a/cpu.max", "max 100000\n");
  write("groups/cpu/cpu.cfs_quota_us", "-1\n");
  write("groups/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cores(), usable_processors());
}

}  // namespace
}  // namespace kvik
