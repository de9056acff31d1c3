#include "base/process/service_manager.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "base/process/watchdog.h"

namespace kvik {
namespace {

using std::chrono::milliseconds;

std::string take(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  std::string copy = value ? value : "";
  ::unsetenv(name.c_str());
  return copy;
}

int listening_socket(int family) {
  const int socket = ::socket(family, SOCK_STREAM, 0);
  EXPECT_EQ(::listen(socket, 1), 0);
  return socket;
}

// Makes a descriptor the first that a service manager passes, and restores the former one.
class PassedSocket {
 public:
  explicit PassedSocket(int socket) : former_(::fcntl(kFirst, F_DUPFD_CLOEXEC, kFirst + 1)) {
    ::dup2(socket, kFirst);
    if (socket != kFirst) ::close(socket);
    ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
    ::setenv("LISTEN_FDS", "1", 1);
    ::setenv("LISTEN_FDNAMES", "kvik.socket", 1);
  }
  ~PassedSocket() {
    ::close(kFirst);
    if (former_ < 0) return;
    ::dup2(former_, kFirst);
    ::close(former_);
  }

 private:
  static constexpr int kFirst = 3;
  int former_;
};

TEST(InheritedSocket, is_passed_once) {
  const PassedSocket passed(listening_socket(AF_INET));
  const auto socket = inherited_socket(take);
  ASSERT_TRUE(socket.has_value()) << socket.error().message;
  EXPECT_EQ(*socket, 3);
  EXPECT_EQ(::fcntl(3, F_GETFD), FD_CLOEXEC);
  for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"})
    EXPECT_EQ(std::getenv(name), nullptr) << name;
  EXPECT_EQ(inherited_socket(take).value(), std::nullopt);
}

TEST(InheritedSocket, of_another_process_is_ignored) {
  const PassedSocket passed(listening_socket(AF_INET));
  ::setenv("LISTEN_PID", "1", 1);
  EXPECT_EQ(inherited_socket(take).value(), std::nullopt);
  EXPECT_EQ(std::getenv("LISTEN_FDS"), nullptr);
}

TEST(InheritedSocket, must_be_one_listening_stream_socket) {
  {
    const PassedSocket passed(listening_socket(AF_INET));
    ::setenv("LISTEN_FDS", "2", 1);
    const auto socket = inherited_socket(take);
    ASSERT_FALSE(socket.has_value());
    EXPECT_EQ(socket.error().message, "LISTEN_FDS is 2, expected 1: one listening socket");
  }
  for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {  // neither listens
    const PassedSocket passed(::socket(AF_INET, type, 0));
    const auto socket = inherited_socket(take);
    ASSERT_FALSE(socket.has_value());
    EXPECT_EQ(socket.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(socket.error().message.find("needs ListenStream="), std::string::npos);
  }
}

// A service manager that receives the messages of this process.
class FakeManager {
 public:
  // `address` is a path or begins with '@'.
  explicit FakeManager(const std::string& address)
      : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)), address_(address) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path, address.data(), address.size());
    if (address[0] == '@') name.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size());
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&name), size), 0) << address;
    ::setenv("NOTIFY_SOCKET", address.c_str(), 1);
  }
  ~FakeManager() { std::filesystem::remove(address_); }

  // Returns the next message, or "nothing" if none arrives in time.
  std::string next(milliseconds at_most) {
    pollfd event{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&event, 1, static_cast<int>(at_most.count())) != 1) return "nothing";
    char buffer[256];
    const auto n_bytes = ::recv(socket_.get(), buffer, sizeof buffer, 0);
    return {buffer, static_cast<size_t>(n_bytes)};
  }

 private:
  FileDescriptor socket_;
  std::string address_;
};

std::string socket_path() {
  return testing::TempDir() + "kvik-notify-" + std::to_string(::getpid());
}

TEST(ServiceManager, receives_messages_at_a_path_and_at_an_abstract_socket) {
  for (const std::string& address : {socket_path(), "@kvik-test-" + std::to_string(::getpid())}) {
    FakeManager fake(address);
    const ServiceManager manager(take);
    EXPECT_TRUE(manager.is_present());
    EXPECT_EQ(std::getenv("NOTIFY_SOCKET"), nullptr);
    manager.notify("READY=1\nSTATUS=loading 42%");
    EXPECT_EQ(fake.next(milliseconds(5000)), "READY=1\nSTATUS=loading 42%");
  }
}

TEST(ServiceManager, is_absent_without_the_variable_or_with_a_wrong_one) {
  const std::string too_long = "/" + std::string(200, 'x');
  for (const char* address : {"", "vsock:2:1234", "notify.sock", "@", too_long.c_str()}) {
    ::setenv("NOTIFY_SOCKET", address, 1);
    ::setenv("WATCHDOG_USEC", "1000000", 1);
    const ServiceManager manager(take);
    EXPECT_FALSE(manager.is_present()) << address;
    EXPECT_FALSE(manager.watchdog_interval().has_value()) << address;
    manager.notify("READY=1");
  }
}

TEST(ServiceManager, that_ended_does_not_hold_the_process_up) {
  auto fake = std::make_unique<FakeManager>(socket_path());
  const ServiceManager manager(take);
  fake.reset();
  const auto begin = std::chrono::steady_clock::now();
  manager.notify("STOPPING=1");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(500));
}

TEST(ServiceManager, names_the_watchdog_interval_of_this_process) {
  const std::string own = std::to_string(::getpid());
  struct Case {
    const char *interval, *pid;
    std::optional<Duration> expected;
  };
  for (const Case& c : {Case{"2500000", "", milliseconds(2500)},
                        {"2500000", own.c_str(), milliseconds(2500)},
                        {"2500000", "1", std::nullopt},
                        {"soon", "", std::nullopt},
                        {"0", "", std::nullopt},
                        {"", "", std::nullopt}}) {
    FakeManager fake(socket_path());
    ::setenv("WATCHDOG_USEC", c.interval, 1);
    ::setenv("WATCHDOG_PID", c.pid, 1);
    EXPECT_EQ(ServiceManager(take).watchdog_interval(), c.expected) << c.interval << ' ' << c.pid;
    EXPECT_EQ(std::getenv("WATCHDOG_USEC"), nullptr);
  }
}

TEST(Watchdog, sends_signs_of_life_only_while_there_is_progress) {
  FakeManager fake(socket_path());
  ::setenv("WATCHDOG_USEC", "200000", 1);
  ::unsetenv("WATCHDOG_PID");
  const ServiceManager manager(take);
  std::atomic<bool> has_progress = true;
  const auto watchdog = Watchdog::start(manager, [&] { return has_progress.load(); });
  ASSERT_TRUE(watchdog.has_value());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(fake.next(milliseconds(5000)), "WATCHDOG=1");
  has_progress = false;
  while (fake.next(milliseconds(150)) == "WATCHDOG=1") {  // those sent before
  }
  EXPECT_EQ(fake.next(milliseconds(200)), "nothing");
  has_progress = true;
  EXPECT_EQ(fake.next(milliseconds(5000)), "WATCHDOG=1");
}

TEST(Watchdog, a_count_is_progress_at_first_and_when_it_grows) {
  uint64_t count = 0;
  const Watchdog::Probe probe = Watchdog::probe_of([&] { return count; });
  EXPECT_TRUE(probe()) << "the thread that counts may not have begun";
  EXPECT_FALSE(probe());
  ++count;
  EXPECT_TRUE(probe());
  EXPECT_FALSE(probe());
}

TEST(Watchdog, is_not_started_unless_the_manager_expects_it) {
  FakeManager fake(socket_path());
  const ServiceManager manager(take);
  const auto watchdog = Watchdog::start(manager, [] { return true; });
  ASSERT_TRUE(watchdog.has_value());
  EXPECT_EQ(*watchdog, nullptr);
}

}  // namespace
}  // namespace kvik
