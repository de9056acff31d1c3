#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <vector>

#include "support/tiny_service.h"

// Running completions: how they end, cancellation, and choices that the queue cannot accept.
namespace kvik {
namespace {

// Blocks the engine thread in the first chunk until open().
class Gate {
 public:
  std::shared_ptr<RecordingCompletionSink> sink() {
    return std::make_shared<RecordingCompletionSink>([this](const CompletionChunk&) {
      if (was_held_) return;
      was_held_ = true;
      held_.count_down();
      opened_.wait();
    });
  }
  void wait_until_held() { held_.wait(); }
  void open() { opened_.count_down(); }

 private:
  bool was_held_ = false;  // engine thread only
  std::latch held_{1};
  std::latch opened_{1};
};

TEST(Completion, every_choice_ends_once_and_the_end_of_all_comes_last) {
  ServiceRig rig;
  CompletionRequest request = letters_request(10);
  request.n = 5;
  const auto sink = std::make_shared<RecordingCompletionSink>();
  const auto completion = rig.service().complete(request, sink);
  ASSERT_TRUE(completion.has_value());
  ASSERT_TRUE(rig.drain());
  std::vector<int> n_finishes(5);
  for (const CompletionChunk& chunk : sink->chunks()) {
    if (chunk.finish) ++n_finishes[chunk.choice];
  }
  EXPECT_EQ(n_finishes, std::vector<int>(5, 1));
  EXPECT_EQ(sink->usages().size(), 1u);
  EXPECT_TRUE(sink->is_in_order());
}

TEST(Completion, destroying_it_cancels_what_runs_and_its_pages_come_back) {
  ServiceRig rig;
  Gate gate;
  const auto sink = gate.sink();
  CompletionRequest request = letters_request(1000);
  request.n = 3;
  auto completion = rig.service().complete(request, sink);
  ASSERT_TRUE(completion.has_value());
  gate.wait_until_held();
  completion->reset();
  gate.open();
  ASSERT_TRUE(rig.drain());
  EXPECT_EQ(rig.service().snapshot().pages.leased, 0u);
  EXPECT_LT(rig.service().snapshot().generated_tokens, 10u);
}

TEST(Completion, after_destruction_the_sink_is_not_called) {
  ServiceRig rig;
  Gate gate;
  const auto sink = gate.sink();
  auto completion = rig.service().complete(letters_request(1000), sink);
  ASSERT_TRUE(completion.has_value());
  gate.wait_until_held();
  completion->reset();
  const size_t n_chunks = sink->chunks().size();
  gate.open();
  ASSERT_TRUE(rig.drain());
  EXPECT_EQ(sink->chunks().size(), n_chunks);
  EXPECT_TRUE(sink->usages().empty());
  EXPECT_EQ(sink.use_count(), 1);  // no other reference remains
}

TEST(Completion, destroying_a_finished_one_has_no_effect) {
  ServiceRig rig;
  const auto sink = std::make_shared<RecordingCompletionSink>();
  auto completion = rig.service().complete(letters_request(3), sink);
  ASSERT_TRUE(completion.has_value());
  ASSERT_TRUE(sink->wait_until_done());
  completion->reset();
  EXPECT_EQ(rig.answer(letters_request(3)).usage.completion_tokens, 3u);
}

TEST(Completion, if_the_queue_rejects_a_choice_the_others_are_canceled) {
  ServiceRig rig({.max_running = 1, .max_queue = 3});
  Gate gate;
  auto running = rig.service().complete(letters_request(5), gate.sink());
  ASSERT_TRUE(running.has_value());
  gate.wait_until_held();
  CompletionRequest request = letters_request(1000);
  request.n = 10;
  const auto sink = std::make_shared<RecordingCompletionSink>();
  const auto completion = rig.service().complete(request, sink);
  ASSERT_FALSE(completion.has_value());
  EXPECT_EQ(completion.error().code, ErrorCode::kExhausted);
  gate.open();
  ASSERT_TRUE(rig.drain());
  EXPECT_TRUE(sink->chunks().empty());
  EXPECT_TRUE(sink->usages().empty());
  EXPECT_EQ(rig.service().snapshot().pages.leased, 0u);
  EXPECT_EQ(rig.service().snapshot().generated_tokens, 5u);
}

TEST(Completion, while_the_engine_drains_new_ones_are_refused) {
  ServiceRig rig;
  ASSERT_TRUE(rig.drain());
  EXPECT_EQ(rig.error_of(letters_request(3)).code, ErrorCode::kUnavailable);
}

TEST(Completion, many_canceled_ones_release_all_pages) {
  ServiceRig rig({.n_pages = 9});
  std::vector<std::unique_ptr<Completion>> held;
  for (uint64_t i = 0; i < 300; ++i) {
    CompletionRequest request = letters_request(1 + i % 60, i);
    request.n = 1 + i % 3;
    auto completion = rig.service().complete(request, std::make_shared<RecordingCompletionSink>());
    ASSERT_TRUE(completion.has_value()) << completion.error().message;
    held.push_back(std::move(*completion));
    if (held.size() > i % 7) held.erase(held.begin());
  }
  held.clear();
  const std::string after = rig.answer(letters_request(20)).choices[0].text;
  EXPECT_EQ(after, ServiceRig().answer(letters_request(20)).choices[0].text);
  ASSERT_TRUE(rig.drain());
  const PageCounts pages = rig.service().snapshot().pages;
  EXPECT_EQ(pages.leased + pages.sealed, 0u);
  EXPECT_EQ(pages.total(), 9u);
}

}  // namespace
}  // namespace kvik
