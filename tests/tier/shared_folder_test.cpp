#include "tier/shared_folder.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/check.h"
#include "support/temporary_folder.h"

namespace kvik {
namespace {

// Makes system calls of the calling thread fail with EPERM, as on a file system that lacks them.
void disable_calls(const std::vector<uint32_t>& numbers) {
  std::vector<sock_filter> filter = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const uint32_t number : numbers) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
  CHECK(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  CHECK(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

std::string read_text(const SharedFolder& folder, const std::string& name, size_t n_bytes) {
  std::string text(n_bytes, ' ');
  const auto done = folder.read(name, std::as_writable_bytes(std::span(text)));
  return done == SharedFolder::Read::kDone ? text : "";
}

size_t n_entries(const std::string& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder),
                                           std::filesystem::directory_iterator()));
}

// Writes two files of one name, and checks that the first one stays.
void write_twice(const SharedFolder& folder) {
  for (const std::string_view text : {"first", "later"}) {
    const auto done = folder.write_once("name", std::as_bytes(std::span(text)));
    EXPECT_TRUE(done.has_value()) << done.error().message;
    EXPECT_EQ(read_text(folder, "name", 5), "first");
    EXPECT_EQ(n_entries(folder.path()), 1u) << "no temporary file is left";
  }
  EXPECT_EQ(std::filesystem::status(folder.path() + "/name").permissions(),
            std::filesystem::perms(0640));
}

TEST(SharedFolder, a_file_written_once_stays_on_every_file_system) {
#ifdef SYS_link
  const std::vector<uint32_t> links = {SYS_link, SYS_linkat};
#else
  const std::vector<uint32_t> links = {SYS_linkat};
#endif
  for (const bool has_links : {true, false}) {
    for (const bool has_rename : {true, false}) {
      std::vector<uint32_t> disabled;
      if (!has_links) disabled = links;
      if (!has_rename) disabled.push_back(SYS_renameat2);
      const TemporaryFolder folder;
      const SharedFolder shared(folder.path(), 0750);
      std::thread([&] {
        disable_calls(disabled);
        write_twice(shared);
      }).join();
    }
  }
}

}  // namespace
}  // namespace kvik
