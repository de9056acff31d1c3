#include "engine/engine_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "support/tiny_engine.h"

namespace kvik {
namespace {

using testing::ElementsAre;

// An engine on its own thread, with a tiny model.
class ThreadRig {
 public:
  explicit ThreadRig(const TinyEngineOptions& options = {})
      : parts_(
            make_tiny_engine(options, load_tiny(options.model), std::make_unique<SteadyClock>())),
        thread_(std::make_unique<EngineThread>(std::move(parts_.engine))) {}

  EngineThread& thread() { return *thread_; }
  void destroy_thread() { thread_.reset(); }

  // Submits a request, which must be accepted, and returns its id.
  RequestId submit(Request request, std::shared_ptr<EventSink> sink) {
    const auto id = thread_->submit(std::move(request), std::move(sink));
    EXPECT_TRUE(id.has_value()) << id.error().message;
    return id.value_or(RequestId{});
  }

 private:
  TinyEngine parts_;
  std::unique_ptr<EngineThread> thread_;
};

// Blocks the engine in the middle of a step, at the second token of a request. The request is then
// known to be running.
class Gate {
 public:
  std::shared_ptr<RecordingSink> sink() {
    return std::make_shared<RecordingSink>([this](const TokenEvent&) {
      if (++n_tokens_ == 2) {
        held_.count_down();
        opened_.wait();
      }
      return EventSink::Verdict::kContinue;
    });
  }
  void wait_until_held() { held_.wait(); }
  void open() { opened_.count_down(); }

 private:
  int n_tokens_ = 0;  // engine thread only
  std::latch held_{1};
  std::latch opened_{1};
};

std::vector<TokenId> answer_alone(const Request& request) {
  EngineRig rig;
  return rig.run(request)->tokens();
}

TEST(EngineThread, answers_as_the_engine_does) {
  ThreadRig rig;
  const Request request = greedy_request(some_tokens(20), 30);
  const auto sink = std::make_shared<RecordingSink>();
  rig.submit(request, sink);
  ASSERT_TRUE(sink->wait_for_finish());
  EXPECT_EQ(sink->tokens(), answer_alone(request));
}

TEST(EngineThread, makes_progress_when_idle_and_none_when_it_hangs) {
  ThreadRig rig;
  const auto await_progress = [&](std::chrono::milliseconds at_most) {
    const uint64_t first = rig.thread().probe_progress();
    const auto end = std::chrono::steady_clock::now() + at_most;
    while (std::chrono::steady_clock::now() < end) {
      if (rig.thread().probe_progress() > first) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  };
  EXPECT_TRUE(await_progress(std::chrono::seconds(10)));
  Gate gate;
  rig.submit(greedy_request(some_tokens(20), 30), gate.sink());
  gate.wait_until_held();
  EXPECT_FALSE(await_progress(std::chrono::milliseconds(100)));
  gate.open();
  EXPECT_TRUE(await_progress(std::chrono::seconds(10)));
}

TEST(EngineThread, concurrent_submits_get_their_own_answers) {
  constexpr uint32_t kThreads = 4, kEach = 6;
  ThreadRig rig({.n_pages = 12});  // some are preempted
  std::vector<std::shared_ptr<RecordingSink>> sinks(kThreads * kEach);
  std::vector<Request> requests;
  for (uint32_t i = 0; i < sinks.size(); ++i) {
    requests.push_back(seeded_request(some_tokens(10 + i, i), 40, i));
  }
  std::latch start(kThreads);
  {
    std::vector<std::jthread> threads;
    for (uint32_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        start.arrive_and_wait();
        for (uint32_t i = t * kEach; i < (t + 1) * kEach; ++i) {
          sinks[i] = std::make_shared<RecordingSink>();
          rig.submit(requests[i], sinks[i]);
          rig.thread().snapshot();
        }
      });
    }
  }
  EngineRig reference;
  for (uint32_t i = 0; i < sinks.size(); ++i) {
    ASSERT_TRUE(sinks[i]->wait_for_finish());
    EXPECT_EQ(sinks[i]->tokens(), reference.run(requests[i])->tokens()) << "request " << i;
  }
}

TEST(EngineThread, a_rejected_request_does_not_call_its_sink) {
  ThreadRig rig;
  const auto sink = std::make_shared<RecordingSink>();
  EXPECT_EQ(rig.thread().submit(greedy_request({}, 5), sink).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(rig.thread().submit(greedy_request({4}, 5000), sink).error().code,
            ErrorCode::kContextLength);
  EXPECT_TRUE(rig.thread().drain(kTestTimeout));
  EXPECT_FALSE(sink->is_finished());
}

TEST(EngineThread, a_cancel_from_another_thread_ends_the_request_and_frees_its_pages) {
  ThreadRig rig;
  const auto sink = std::make_shared<RecordingSink>();
  const RequestId id = rig.submit(greedy_request(some_tokens(20), 2000), sink);
  ASSERT_TRUE(sink->wait_for_tokens(3));
  std::jthread([&] { rig.thread().cancel(id); }).join();
  ASSERT_TRUE(sink->wait_for_finish());
  EXPECT_THAT(sink->finishes(), ElementsAre(FinishReason::kCancelled));
  EXPECT_TRUE(rig.thread().drain(kTestTimeout));
  EXPECT_EQ(rig.thread().snapshot().pages.leased, 0u);
}

TEST(EngineThread, a_cancel_takes_effect_within_one_step) {
  ThreadRig rig;
  Gate gate;
  const auto sink = gate.sink();
  const RequestId id = rig.submit(greedy_request(some_tokens(20), 2000), sink);
  gate.wait_until_held();
  rig.thread().cancel(id);
  gate.open();
  ASSERT_TRUE(sink->wait_for_finish());
  EXPECT_EQ(sink->tokens().size(), 2u);
}

TEST(EngineThread, snapshot_shows_the_running_step) {
  ThreadRig rig;
  Gate gate;
  const auto sink = gate.sink();
  rig.submit(greedy_request(some_tokens(20), 5), sink);
  gate.wait_until_held();  // in a step
  const EngineSnapshot during = rig.thread().snapshot();
  EXPECT_EQ(during.n_running, 1u);
  EXPECT_EQ(during.running_step.n_sequences, 1u);
  EXPECT_GE(during.running_step.n_decode_rows, 1u);
  EXPECT_GT(during.running_step_s, 0);
  gate.open();
  ASSERT_TRUE(sink->wait_for_finish());
  ASSERT_TRUE(rig.thread().drain(kTestTimeout));
  EXPECT_EQ(rig.thread().snapshot().running_step.n_sequences, 0u);
}

TEST(EngineThread, a_request_can_be_cancelled_before_the_engine_has_seen_it) {
  ThreadRig rig;
  Gate gate;
  const auto first = gate.sink();
  rig.submit(greedy_request(some_tokens(20), 10), first);
  gate.wait_until_held();
  const auto second = std::make_shared<RecordingSink>();
  rig.thread().cancel(rig.submit(greedy_request(some_tokens(20), 10), second));
  gate.open();
  ASSERT_TRUE(second->wait_for_finish());
  EXPECT_THAT(second->finishes(), ElementsAre(FinishReason::kCancelled));
  EXPECT_TRUE(second->tokens().empty());
  ASSERT_TRUE(first->wait_for_finish());
  EXPECT_THAT(first->finishes(), ElementsAre(FinishReason::kLength));
}

TEST(EngineThread, cancelling_unknown_or_finished_ids_does_nothing) {
  ThreadRig rig;
  rig.thread().cancel(RequestId{12345});
  const auto first = std::make_shared<RecordingSink>();
  const RequestId id = rig.submit(greedy_request(some_tokens(20), 3), first);
  ASSERT_TRUE(first->wait_for_finish());
  rig.thread().cancel(id);
  const auto second = std::make_shared<RecordingSink>();
  rig.submit(greedy_request(some_tokens(20), 3), second);
  ASSERT_TRUE(second->wait_for_finish());
  EXPECT_EQ(first->tokens(), second->tokens());
  EXPECT_EQ(first->finishes().size(), 1u);
}

TEST(EngineThread, a_full_queue_rejects_requests_until_it_shrinks) {
  ThreadRig rig({.max_running = 1, .max_queue = 2});
  Gate gate;
  const auto running = gate.sink();
  rig.submit(greedy_request(some_tokens(5), 10), running);
  gate.wait_until_held();
  std::vector<std::shared_ptr<RecordingSink>> waiting;
  for (int i = 0; i < 2; ++i) {
    waiting.push_back(std::make_shared<RecordingSink>());
    rig.submit(greedy_request(some_tokens(5), 10), waiting.back());
  }
  EXPECT_EQ(rig.thread().snapshot().n_waiting, 2u);
  const auto refused = std::make_shared<RecordingSink>();
  const auto id = rig.thread().submit(greedy_request(some_tokens(5), 10), refused);
  ASSERT_FALSE(id.has_value());
  EXPECT_EQ(id.error().code, ErrorCode::kExhausted);
  gate.open();
  for (const auto& sink : waiting) ASSERT_TRUE(sink->wait_for_finish());
  EXPECT_FALSE(refused->is_finished());
  const auto later = std::make_shared<RecordingSink>();
  rig.submit(greedy_request(some_tokens(5), 10), later);
  ASSERT_TRUE(later->wait_for_finish());
}

TEST(EngineThread, draining_finishes_what_runs_and_refuses_what_is_new) {
  ThreadRig rig({.max_running = 1});
  Gate gate;
  const auto running = gate.sink();
  const auto waiting = std::make_shared<RecordingSink>();
  rig.submit(greedy_request(some_tokens(5), 50), running);
  gate.wait_until_held();
  rig.submit(greedy_request(some_tokens(5), 50), waiting);
  EXPECT_FALSE(rig.thread().drain(Duration::zero()));
  const auto id = rig.thread().submit(greedy_request({4}, 5), std::make_shared<RecordingSink>());
  ASSERT_FALSE(id.has_value());
  EXPECT_EQ(id.error().code, ErrorCode::kUnavailable);
  gate.open();
  EXPECT_TRUE(rig.thread().drain(kTestTimeout));
  EXPECT_THAT(running->finishes(), ElementsAre(FinishReason::kLength));
  EXPECT_THAT(waiting->finishes(), ElementsAre(FinishReason::kLength));
  EXPECT_EQ(rig.thread().snapshot().pages.leased, 0u);
}

TEST(EngineThread, draining_an_idle_engine_is_done_at_once) {
  ThreadRig rig;
  EXPECT_TRUE(rig.thread().drain(Duration::zero()));
}

TEST(EngineThread, the_destructor_cancels_each_request_once) {
  ThreadRig rig({.n_pages = 8, .max_running = 3});
  Gate gate;
  std::vector<std::shared_ptr<RecordingSink>> sinks = {gate.sink()};
  rig.submit(greedy_request(some_tokens(5), 200), sinks[0]);
  gate.wait_until_held();
  for (uint32_t i = 0; i < 10; ++i) {
    sinks.push_back(std::make_shared<RecordingSink>());
    rig.submit(greedy_request(some_tokens(5, i), 200), sinks.back());
  }
  gate.open();
  rig.destroy_thread();
  for (const auto& sink : sinks) {
    EXPECT_THAT(sink->finishes(), ElementsAre(FinishReason::kCancelled));
    EXPECT_TRUE(sink->is_in_order());
    EXPECT_EQ(sink.use_count(), 1);  // the engine has released it
  }
}

TEST(EngineThread, concurrent_submits_cancels_and_snapshots_lose_nothing) {
  constexpr uint32_t kThreads = 4, kEach = 100;
  ThreadRig rig({.n_pages = 9, .max_queue = 1000});
  std::vector<std::shared_ptr<RecordingSink>> sinks(kThreads * kEach);
  std::atomic<bool> done = false;
  std::jthread watcher([&] {
    while (!done) {
      const EngineSnapshot snapshot = rig.thread().snapshot();
      EXPECT_EQ(snapshot.pages.total(), 9u);
      std::this_thread::yield();
    }
  });
  {
    std::vector<std::jthread> threads;
    for (uint32_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (uint32_t i = t * kEach; i < (t + 1) * kEach; ++i) {
          sinks[i] = std::make_shared<RecordingSink>();
          const auto id =
              rig.submit(seeded_request(some_tokens(1 + i % 50, i), i % 30, i), sinks[i]);
          if (i % 3 == 0) rig.thread().cancel(id);
        }
      });
    }
  }
  EXPECT_TRUE(rig.thread().drain(kTestTimeout));
  done = true;
  for (uint32_t i = 0; i < sinks.size(); ++i) {
    const auto finishes = sinks[i]->finishes();
    ASSERT_EQ(finishes.size(), 1u);
    if (i % 3 != 0) {
      EXPECT_EQ(finishes[0], FinishReason::kLength);
      EXPECT_EQ(sinks[i]->tokens().size(), i % 30);
    }
  }
  const EngineSnapshot snapshot = rig.thread().snapshot();
  EXPECT_EQ(snapshot.pages.leased, 0u);
  EXPECT_EQ(snapshot.n_running + snapshot.n_waiting, 0u);
}

// A sink that runs out of memory, at a token and in on_finish().
class OutOfMemorySink final : public EventSink {
 public:
  explicit OutOfMemorySink(bool at_token) : at_token_(at_token) {}
  Verdict on_token(const TokenEvent&) override {
    if (at_token_) throw std::bad_alloc();
    return Verdict::kContinue;
  }
  void on_finish(FinishReason, const Usage&) override { throw std::bad_alloc(); }
  void on_no_memory() override { told_.count_down(); }
  void wait_until_told() { told_.wait(); }

 private:
  const bool at_token_;
  std::latch told_{1};
};

TEST(EngineThread, no_memory_for_an_end_or_in_cancel_all_does_not_end_the_process) {
  for (const bool at_token : {false, true}) {
    ThreadRig rig;
    const auto starved = std::make_shared<OutOfMemorySink>(at_token);
    rig.submit(greedy_request(some_tokens(5), 3), starved);
    starved->wait_until_told();
    const auto sink = std::make_shared<RecordingSink>();
    rig.submit(greedy_request(some_tokens(5), 3), sink);
    EXPECT_TRUE(rig.thread().drain(std::chrono::seconds(60)));
    EXPECT_THAT(sink->finishes(), ElementsAre(FinishReason::kLength));
  }
}

class CountingSink final : public EventSink {
 public:
  Verdict on_token(const TokenEvent&) override { return Verdict::kContinue; }
  void on_finish(FinishReason, const Usage&) override { ++n_finishes; }
  void on_no_memory() override { ++n_told; }
  uint32_t n_finishes = 0, n_told = 0;
};

TEST(Engine, dropped_answers_are_told_once_and_release_their_sinks) {
  EngineRig rig({.max_running = 1});
  std::vector<std::shared_ptr<CountingSink>> sinks;
  for (uint64_t i = 1; i <= 3; ++i) {
    sinks.push_back(std::make_shared<CountingSink>());
    rig.engine().submit(RequestId{i}, greedy_request(some_tokens(5), 30), sinks.back());
  }
  rig.engine().step();
  rig.engine().drop_answers();
  for (const auto& sink : sinks) EXPECT_EQ(sink.use_count(), 1);
  rig.engine().cancel_all();
  EXPECT_FALSE(rig.engine().step());
  for (const auto& sink : sinks) {
    EXPECT_EQ(sink->n_told, 1u);
    EXPECT_EQ(sink->n_finishes, 0u);
  }
  EXPECT_EQ(rig.pages().leased, 0u);
}

}  // namespace
}  // namespace kvik
