#include "engine/schedule/queue_limit.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "engine/schedule/queue_estimate.h"

namespace kvik {
namespace {

TEST(QueueLimit, alone_a_tenant_may_have_every_place) {
  QueueLimit limit(4);
  std::vector<QueuePlace> places;
  for (int i = 0; i < 4; ++i) {
    auto place = limit.enter("");
    ASSERT_TRUE(place.has_value());
    places.push_back(std::move(*place));
  }
  EXPECT_EQ(limit.enter("").error().code, ErrorCode::kExhausted);
  places.pop_back();
  EXPECT_TRUE(limit.enter("").has_value());
}

TEST(QueueLimit, among_several_none_has_more_than_three_quarters) {
  QueueLimit limit(8);
  { const auto seen = limit.enter("asks"); }
  std::vector<QueuePlace> places;
  while (true) {
    auto place = limit.enter("floods");
    if (!place) break;
    places.push_back(std::move(*place));
  }
  EXPECT_EQ(places.size(), 6u);
  EXPECT_TRUE(limit.enter("asks").has_value());
}

TEST(QueueLimit, two_flooding_tenants_leave_places_for_the_next) {
  QueueLimit limit(70, 3);
  std::vector<QueuePlace> places;
  for (int i = 0; i < 200; ++i) {
    for (const char* tenant : {"floods", "floods too"}) {
      if (auto place = limit.enter(tenant)) places.push_back(std::move(*place));
    }
  }
  EXPECT_EQ(places.size(), 60u) << "three sevenths each";
  for (int i = 0; i < 5; ++i) {
    auto place = limit.enter("asks");
    ASSERT_TRUE(place.has_value());
    places.push_back(std::move(*place));
  }
}

TEST(QueueLimit, a_place_that_is_moved_is_given_back_once) {
  QueueLimit limit(1);
  {
    auto first = limit.enter("a");
    ASSERT_TRUE(first.has_value());
    QueuePlace second = std::move(*first);
    QueuePlace third;
    third = std::move(second);
    EXPECT_FALSE(limit.enter("a").has_value());
  }
  EXPECT_TRUE(limit.enter("a").has_value());
}

TEST(QueueLimit, many_threads_never_pass_it) {
  QueueLimit limit(3);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&limit, t] {
      for (int i = 0; i < 2000; ++i) {
        const auto one = limit.enter(t % 2 == 0 ? "a" : "b");
        const auto two = limit.enter("c");
      }
    });
  }
  threads.clear();
  std::vector<QueuePlace> places;
  for (const char* tenant : {"a", "b", "c"}) {
    auto place = limit.enter(tenant);
    ASSERT_TRUE(place.has_value());
    places.push_back(std::move(*place));
  }
  EXPECT_FALSE(limit.enter("a").has_value());
}

TEST(QueueEstimate, is_the_queue_times_the_time_between_starts) {
  QueueEstimate estimate;
  TimePoint now{};
  for (int i = 0; i < 100; ++i) {
    now += std::chrono::seconds(2);
    estimate.record(1, 5, now);
  }
  EXPECT_NEAR(estimate.wait_s(5), 10, 0.1);
  EXPECT_EQ(estimate.wait_s(0), 0);
}

TEST(QueueEstimate, time_in_which_nobody_waited_does_not_count) {
  QueueEstimate estimate;
  TimePoint now{};
  for (int i = 0; i < 100; ++i) {
    now += std::chrono::seconds(1);
    estimate.record(1, 2, now);
  }
  estimate.record(1, 0, now);
  now += std::chrono::hours(10);
  estimate.record(1, 3, now);
  EXPECT_NEAR(estimate.wait_s(1), 1, 0.2);
}

}  // namespace
}  // namespace kvik
