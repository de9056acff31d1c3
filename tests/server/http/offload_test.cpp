#include "server/http/offload.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace kvik {
namespace {

namespace asio = boost::asio;
using Priority = Offload::Priority;

TEST(Offload, a_call_runs_elsewhere_and_its_result_comes_back) {
  asio::io_context io;  // outlives the threads
  Offload offload;
  ASSERT_TRUE(offload.start("test", 2, Priority::kNormal).has_value());
  const auto here = std::this_thread::get_id();
  std::thread::id there, after;
  std::unique_ptr<std::string> result;
  const auto caller = [&]() -> asio::awaitable<void> {
    result = co_await offload.call([&] {
      there = std::this_thread::get_id();
      return std::make_unique<std::string>("done");
    });
    after = std::this_thread::get_id();
  };
  asio::co_spawn(io, caller, asio::detached);
  io.run();
  ASSERT_TRUE(result);
  EXPECT_EQ(*result, "done");
  EXPECT_NE(there, here);
  EXPECT_EQ(after, here);
}

TEST(Offload, what_a_call_throws_is_thrown_to_its_caller) {
  asio::io_context io;  // outlives the threads
  Offload offload;
  ASSERT_TRUE(offload.start("test", 1, Priority::kNormal).has_value());
  int n_caught = 0;
  const auto caller = [&]() -> asio::awaitable<void> {
    for (int i = 0; i < 3; ++i) {
      try {
        co_await offload.call([]() -> bool { throw std::bad_alloc(); });
      } catch (const std::bad_alloc&) {
        ++n_caught;
      }
    }
  };
  asio::co_spawn(io, caller, asio::detached);
  io.run();
  EXPECT_EQ(n_caught, 3);
}

TEST(Offload, many_callers_get_their_own_results) {
  asio::io_context io;  // outlives the threads
  Offload offload;
  ASSERT_TRUE(offload.start("test", 2, Priority::kNormal).has_value());
  constexpr int kCallers = 64, kCalls = 50;
  std::vector<int> sums(kCallers);
  for (int i = 0; i < kCallers; ++i) {
    asio::co_spawn(
        io,
        [&sums, &offload, i]() -> asio::awaitable<void> {
          for (int k = 0; k < kCalls; ++k) {
            sums[i] += co_await offload.call([i, k] { return i * kCalls + k; });
          }
        },
        asio::detached);
  }
  io.run();
  for (int i = 0; i < kCallers; ++i) {
    EXPECT_EQ(sums[i], kCalls * (i * kCalls) + kCalls * (kCalls - 1) / 2) << i;
  }
}

TEST(Offload, all_that_was_posted_is_done_before_it_ends_and_one_that_throws_ends_nothing) {
  std::vector<int> done;
  {
    Offload offload;
    for (int i = 0; i < 5; ++i) {
      offload.post([&done, i, text = std::make_unique<int>(i)] {
        if (i == 2) throw std::bad_alloc();
        done.push_back(*text);
      });
    }
    ASSERT_TRUE(offload.start("test", 1, Priority::kLow).has_value());
  }
  EXPECT_EQ(done, (std::vector<int>{0, 1, 3, 4}));
}

}  // namespace
}  // namespace kvik
