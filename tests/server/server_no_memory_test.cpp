#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#include "base/process/memory_reserve.h"
#include "server_fixture.h"

namespace {

// Number of allocations in the server's threads before one fails; negative: none fails.
std::atomic<int> n_until_failure = -1;

const std::thread::id test_thread = std::this_thread::get_id();

bool is_servers_thread() { return std::this_thread::get_id() != test_thread; }

}  // namespace

// Asio allocates its operations and coroutines with this function, unless it can reuse memory.
extern "C" void* aligned_alloc(size_t alignment, size_t n_bytes) noexcept {
  if (n_until_failure.load() >= 0 && is_servers_thread() && n_until_failure.fetch_sub(1) == 0) {
    errno = ENOMEM;
    return nullptr;
  }
  void* memory = nullptr;
  return posix_memalign(&memory, std::max(alignment, sizeof(void*)), n_bytes) == 0 ? memory
                                                                                   : nullptr;
}

namespace kvik {
namespace {

// Lets one allocation of the server's threads fail.
class ServerNoMemory : public ServerFixture {
 protected:
  ServerNoMemory() { options.tidy_every = std::chrono::milliseconds(1); }
  ~ServerNoMemory() override { n_until_failure = -1; }

  static void fail_after(int n_allocations) { n_until_failure = n_allocations; }
  static bool has_failed() { return n_until_failure < 0; }

  // Uses up the memory reserve and returns whether the server restores it, which it does
  // periodically.
  static bool restores_reserve() {
    if (MemoryReserve::is_kept()) std::get_new_handler()();
    for (int i = 0; i < 5000 && !MemoryReserve::is_kept(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return MemoryReserve::is_kept();
  }
};

TEST_F(ServerNoMemory, survives_each_failed_allocation_at_startup) {
  bool was_asked = true;
  for (int n = 0; was_asked; ++n) {
    ASSERT_LT(n, 1000);
    fail_after(n);
    start();
    EXPECT_TRUE(restores_reserve()) << "allocation " << n;
    was_asked = has_failed();
    n_until_failure = -1;
    expect_alive();
    EXPECT_TRUE(restores_reserve()) << "allocation " << n;
    server.reset();
  }
}

TEST_F(ServerNoMemory, survives_each_failed_allocation_of_a_connection) {
  start();
  bool was_asked = true;
  for (int n = 0; was_asked; ++n) {
    ASSERT_LT(n, 1000);
    fail_after(n);
    {
      std::vector<RawClient> clients;  // uses up the memory that Asio would reuse
      for (int i = 0; i < 4; ++i) clients.push_back(client());
      for (RawClient& c : clients) c.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
      for (RawClient& c : clients) static_cast<void>(c.read_until("\r\n\r\n"));  // or until the end
    }
    was_asked = has_failed();
    n_until_failure = -1;
    expect_alive();
    EXPECT_TRUE(restores_reserve()) << "allocation " << n;
  }
  const auto only_asks = [this] {
    const std::string page = client().get("/metrics").body;
    const size_t at = page.find("} ", page.find("\nkvik_http_connections{"));
    return page.substr(at, 4) == "} 1\n";
  };
  bool is_rest_gone = only_asks();
  for (int i = 0; i < 5000 && !is_rest_gone; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    is_rest_gone = only_asks();
  }
  EXPECT_TRUE(is_rest_gone) << "a connection without a coroutine is still counted";
  const auto begin = std::chrono::steady_clock::now();
  server.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, options.write_timeout / 2)
      << "something of a connection that is gone is waited for";
}

}  // namespace
}  // namespace kvik
