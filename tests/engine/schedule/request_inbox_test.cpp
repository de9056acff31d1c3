#include "engine/schedule/request_inbox.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <future>
#include <set>
#include <thread>
#include <vector>

#include "support/manual_clock.h"

namespace kvik {
namespace {

using std::chrono::seconds;

constexpr TimePoint kNoWait = TimePoint::min();

struct InboxRig {
  ManualClock clock;
  RequestInbox inbox{2, 1, clock};
  RequestInbox::Messages messages;

  RequestId submit() { return *inbox.submit({}, nullptr); }
  bool take() { return inbox.take(messages, kNoWait); }
};

TEST(RequestInbox, requests_come_in_order_with_the_time_of_their_submission) {
  InboxRig rig;
  const TimePoint begin = rig.clock.now();
  const RequestId first = rig.submit();
  rig.clock.advance(seconds(3));
  const RequestId second = rig.submit();
  rig.clock.advance(seconds(4));
  EXPECT_EQ(rig.inbox.snapshot().n_waiting, 2u);
  ASSERT_TRUE(rig.take());
  ASSERT_EQ(rig.messages.requests.size(), 2u);
  EXPECT_EQ(rig.messages.requests[0].id, first);
  EXPECT_EQ(rig.messages.requests[0].submitted, begin);
  EXPECT_EQ(rig.messages.requests[1].id, second);
  EXPECT_EQ(rig.messages.requests[1].submitted, begin + seconds(3));
  EXPECT_EQ(rig.inbox.snapshot().n_waiting, 2u) << "taken, but not yet published";
  ASSERT_TRUE(rig.take());
  EXPECT_TRUE(rig.messages.empty());
}

TEST(RequestInbox, a_full_inbox_has_room_again_when_a_request_is_released) {
  InboxRig rig;
  rig.submit();
  rig.submit();
  EXPECT_EQ(rig.inbox.submit({}, nullptr).error().code, ErrorCode::kExhausted);
  EXPECT_EQ(rig.inbox.check_room().error().code, ErrorCode::kExhausted);
  ASSERT_TRUE(rig.take());
  EXPECT_FALSE(rig.inbox.check_room().has_value()) << "requests have their places until a step";
  rig.messages.requests.clear();
  EXPECT_TRUE(rig.inbox.check_room().has_value());
}

TEST(RequestInbox, requests_are_cancelled_if_all_are_and_until_the_worker_has_taken_that) {
  InboxRig rig;
  const std::array ids = {rig.submit(), rig.submit()};
  rig.inbox.cancel(ids[1]);
  EXPECT_FALSE(rig.inbox.are_cancelled(ids));
  rig.inbox.cancel(ids[0]);
  EXPECT_TRUE(rig.inbox.are_cancelled(ids));
  ASSERT_TRUE(rig.take());
  EXPECT_EQ(rig.messages.cancels, (std::vector{ids[1], ids[0]}));
  EXPECT_FALSE(rig.inbox.are_cancelled(ids));
}

TEST(RequestInbox, stop_ends_a_wait_and_cancels_all) {
  InboxRig rig;
  auto continues = std::async(std::launch::async,
                              [&rig] { return rig.inbox.take(rig.messages, TimePoint::max()); });
  rig.inbox.stop();
  EXPECT_FALSE(continues.get());
  EXPECT_TRUE(rig.inbox.are_cancelled(std::array{RequestId{1}}));
  EXPECT_EQ(rig.inbox.submit({}, nullptr).error().code, ErrorCode::kUnavailable);
}

TEST(RequestInbox, a_wait_ends_by_wake_or_by_its_time) {
  InboxRig rig;
  EXPECT_TRUE(rig.inbox.take(rig.messages, std::chrono::steady_clock::now() + from_ms(1)));
  rig.inbox.wake();
  EXPECT_TRUE(rig.inbox.take(rig.messages, TimePoint::max()));
  EXPECT_TRUE(rig.messages.empty());
}

TEST(RequestInbox, drain_waits_until_the_worker_is_idle) {
  InboxRig rig;
  rig.submit();
  EXPECT_FALSE(rig.inbox.drain(from_ms(1)));
  EXPECT_EQ(rig.inbox.submit({}, nullptr).error().code, ErrorCode::kUnavailable);
  ASSERT_TRUE(rig.take());
  rig.inbox.publish({}, true);
  EXPECT_FALSE(rig.inbox.drain(from_ms(1)));
  rig.inbox.publish({}, false);
  EXPECT_TRUE(rig.inbox.drain(from_ms(1)));
}

TEST(RequestInbox, a_running_step_is_shown_with_its_age_until_it_is_published) {
  InboxRig rig;
  rig.inbox.begin_step({.n_sequences = 3, .begin = rig.clock.now()}, 3, 1);
  rig.clock.advance(seconds(2));
  EXPECT_EQ(rig.inbox.snapshot().n_running, 3u);
  EXPECT_EQ(rig.inbox.snapshot().n_waiting, 1u);
  EXPECT_DOUBLE_EQ(rig.inbox.snapshot().running_step_s, 2);
  rig.inbox.publish({}, false);
  EXPECT_DOUBLE_EQ(rig.inbox.snapshot().running_step_s, 0);
}

TEST(RequestInbox, many_threads_lose_no_request_and_no_cancel) {
  constexpr uint32_t kThreads = 4, kEach = 500;
  const SteadyClock clock;
  RequestInbox inbox(kThreads * kEach, 1, clock);
  std::set<RequestId> taken, cancelled;
  std::thread worker([&] {
    RequestInbox::Messages messages;
    while (taken.size() < kThreads * kEach || cancelled.size() < kThreads * kEach) {
      inbox.take(messages, TimePoint::max());
      for (const QueuedRequest& queued : messages.requests)
        EXPECT_TRUE(taken.insert(queued.id).second);
      cancelled.insert(messages.cancels.begin(), messages.cancels.end());
      inbox.begin_step({.n_sequences = 1, .begin = clock.now()}, 1, 0);
      inbox.are_cancelled(messages.cancels);
      inbox.publish({}, false);
    }
  });
  std::vector<std::thread> clients;
  for (uint32_t i = 0; i < kThreads; ++i) {
    clients.emplace_back([&] {
      for (uint32_t n = 0; n < kEach; ++n) {
        inbox.cancel(*inbox.submit({}, nullptr));
        inbox.probe_progress();
        EXPECT_LE(inbox.snapshot().n_running, 1u);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  worker.join();
  EXPECT_EQ(taken, cancelled);
  EXPECT_TRUE(inbox.drain(std::chrono::seconds(10)));
}

}  // namespace
}  // namespace kvik
