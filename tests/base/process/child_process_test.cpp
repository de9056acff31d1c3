#include "base/process/child_process.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <string>

#include "base/file/file_descriptor.h"
#include "support/temporary_folder.h"

namespace kvik {
namespace {

class ChildProcesses : public testing::Test {
 protected:
  // Runs a command of the shell, with its output in log().
  Result<ChildProcess> shell(const std::string& command, bool is_background = false) {
    return ChildProcess::start({.program = "/bin/sh",
                                .arguments = {"-c", command},
                                .variables = {{"KVIK_TEST", "two words"}, {"HOME", "/nowhere"}},
                                .log_file = folder.path() + "/log",
                                .is_background = is_background});
  }
  std::string log() const {
    std::ifstream file(folder.path() + "/log");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TemporaryFolder folder;
};

TEST_F(ChildProcesses, output_and_exit_code_arrive) {
  auto child = shell("echo said; echo warned >&2; exit 7");
  ASSERT_TRUE(child.has_value());
  EXPECT_EQ(child->wait(), 7);
  EXPECT_EQ(child->exit_code(), 7);
  EXPECT_EQ(log(), "said\nwarned\n");
}

TEST_F(ChildProcesses, variables_are_added_and_replaced) {
  auto child = shell("echo \"$KVIK_TEST, $HOME, ${PATH:+kept}\"");
  ASSERT_TRUE(child.has_value());
  EXPECT_EQ(child->wait(), 0);
  EXPECT_EQ(log(), "two words, /nowhere, kept\n");
}

TEST_F(ChildProcesses, end_by_a_signal_is_reported_as_a_shell_does) {
  auto child = shell("kill -TERM $$");
  ASSERT_TRUE(child.has_value());
  EXPECT_EQ(child->wait(), 128 + SIGTERM);
}

TEST_F(ChildProcesses, missing_program_is_an_error_that_names_it) {
  const auto child = ChildProcess::start({.program = "/no/such/program", .arguments = {}});
  ASSERT_FALSE(child.has_value());
  EXPECT_EQ(child.error().code, ErrorCode::kNotFound);
  EXPECT_NE(child.error().message.find("/no/such/program"), std::string::npos);
}

TEST_F(ChildProcesses, wait_ends_when_a_descriptor_is_readable) {
  auto child = shell("sleep 60");
  ASSERT_TRUE(child.has_value());
  const FileDescriptor event(::eventfd(1, EFD_CLOEXEC));
  EXPECT_FALSE(child->wait_or(event.get()));
  child->send(SIGTERM);
  const FileDescriptor silent(::eventfd(0, EFD_CLOEXEC));
  EXPECT_TRUE(child->wait_or(silent.get()));
  EXPECT_EQ(child->exit_code(), 128 + SIGTERM);
}

TEST_F(ChildProcesses, wait_with_a_limit_returns_nothing_for_one_that_runs) {
  auto child = shell("sleep 60");
  ASSERT_TRUE(child.has_value());
  EXPECT_EQ(child->wait(std::chrono::milliseconds(1)), std::nullopt);
}

TEST_F(ChildProcesses, destroying_ends_it) {
  pid_t pid = 0;
  {
    auto child = shell("echo $$; exec sleep 60", true);
    ASSERT_TRUE(child.has_value());
    while (log().empty()) ::usleep(1000);
    pid = std::stoi(log());
    EXPECT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_EQ(::kill(pid, 0), -1);
}

TEST_F(ChildProcesses, background_program_has_a_process_group_of_its_own) {
  auto child = shell("ps -o pgid= -p $$ 2>/dev/null || cut -d' ' -f5 /proc/$$/stat; echo $$", true);
  ASSERT_TRUE(child.has_value());
  EXPECT_EQ(child->wait(), 0);
  const std::string said = log();
  EXPECT_EQ(std::stoi(said), std::stoi(said.substr(said.find('\n'))));
}

TEST_F(ChildProcesses, signals_that_kvik_ignores_are_not_ignored_in_the_program) {
  std::signal(SIGPIPE, SIG_IGN);
  auto child = shell("kill -PIPE $$; exit 3");
  std::signal(SIGPIPE, SIG_DFL);
  ASSERT_TRUE(child.has_value());
  EXPECT_EQ(child->wait(), 128 + SIGPIPE);
}

TEST_F(ChildProcesses, program_is_found_in_the_first_folder_that_has_it) {
  const std::string path = folder.path() + ":/no/such/folder:/bin";
  EXPECT_EQ(find_program("sh", path), "/bin/sh");
  std::ofstream(folder.path() + "/sh") << "#!/bin/sh\n";
  EXPECT_EQ(find_program("sh", path), "/bin/sh");  // the file is not executable
  ::chmod((folder.path() + "/sh").c_str(), 0700);
  EXPECT_EQ(find_program("sh", path), folder.path() + "/sh");
  EXPECT_EQ(find_program("no-such-program", path), std::nullopt);
  EXPECT_EQ(find_program("/bin/sh", ""), "/bin/sh");
}

}  // namespace
}  // namespace kvik
