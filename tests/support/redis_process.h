#pragma once

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "support/temporary_folder.h"
#include "tier/redis_address.h"
#include "tier/redis_connection.h"

extern char** environ;

namespace kvik {

// Runs a private redis-server on a Unix socket in a temporary folder.
class RedisProcess {
 public:
  explicit RedisProcess(std::vector<std::string> more = {}) {
    std::vector<std::string> words = {
        "redis-server", "--port",       "0",  "--unixsocket", socket(), "--dir",
        folder_.path(), "--appendonly", "no", "--save",       "",       "--logfile",
        "/dev/null",
    };
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    CHECK(::posix_spawnp(&pid_, argv[0], nullptr, nullptr, argv.data(), environ) == 0);
    for (int i = 0; i < 500; ++i) {
      if (RedisConnection::open(address(), std::chrono::seconds(1))) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    CHECK(false);
  }
  ~RedisProcess() { stop(); }
  RedisProcess(const RedisProcess&) = delete;
  RedisProcess& operator=(const RedisProcess&) = delete;

  RedisAddress address() const {
    return {
        .transport = RedisAddress::Transport::kUnix, .host = socket(), .user = {}, .password = {}};
  }
  void stop() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  void suspend() { ::kill(pid_, SIGSTOP); }
  void go_on() { ::kill(pid_, SIGCONT); }

 private:
  std::string socket() const { return folder_.path() + "/redis.sock"; }
  TemporaryFolder folder_;
  pid_t pid_ = 0;
};

}  // namespace kvik
