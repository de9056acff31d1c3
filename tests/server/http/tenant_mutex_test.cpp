#include "server/http/tenant_mutex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <string>
#include <vector>

namespace kvik {
namespace {

namespace asio = boost::asio;
using testing::ElementsAre;

class TenantMutexTest : public testing::Test {
 protected:
  asio::awaitable<void> take(std::string name, std::string tenant) {
    const TenantMutex::Lock lock = co_await mutex_.lock(std::move(tenant));
    EXPECT_EQ(++n_inside_, 1);
    order_.push_back(std::move(name));
    for (int i = 0; i < 3; ++i) co_await asio::post(asio::use_awaitable);
    --n_inside_;
  }
  void start(std::string name, std::string tenant) {
    asio::co_spawn(io_, take(std::move(name), std::move(tenant)), asio::detached);
  }

  asio::io_context io_;
  TenantMutex mutex_;
  std::vector<std::string> order_;
  int n_inside_ = 0;
};

TEST_F(TenantMutexTest, tenants_are_served_round_robin_however_many_requests_one_has) {
  for (int i = 0; i < 4; ++i) start("ann" + std::to_string(i), "ann");
  start("bob0", "bob");
  start("bob1", "bob");
  start("eve0", "eve");
  io_.run();
  EXPECT_THAT(order_, ElementsAre("ann0", "ann1", "bob0", "eve0", "ann2", "bob1", "ann3"));
}

TEST_F(TenantMutexTest, is_free_after_the_last_unlock) {
  start("ann0", "ann");
  io_.run();
  io_.restart();
  start("ann1", "ann");
  start("bob0", "bob");
  io_.run();
  EXPECT_THAT(order_, ElementsAre("ann0", "ann1", "bob0"));
}

TEST(TenantMutex, a_destroyed_waiter_leaves_the_queue) {
  TenantMutex mutex;
  {
    asio::io_context io;
    const auto hold = [&]() -> asio::awaitable<void> {
      const TenantMutex::Lock lock = co_await mutex.lock("ann");
      co_await asio::steady_timer(io, std::chrono::hours(1)).async_wait(asio::use_awaitable);
    };
    asio::co_spawn(io, hold(), asio::detached);
    asio::co_spawn(io, hold(), asio::detached);
    io.poll();
  }
  asio::io_context io;
  bool is_called = false;
  const auto take = [&]() -> asio::awaitable<void> {
    const TenantMutex::Lock lock = co_await mutex.lock("bob");
    is_called = true;
  };
  asio::co_spawn(io, take(), asio::detached);
  io.run();
  EXPECT_TRUE(is_called);
}

}  // namespace
}  // namespace kvik
