#include "engine/watch/live_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/engine_thread.h"
#include "support/tiny_engine.h"

namespace kvik {
namespace {

using Extent = PageMap::Extent;
using Phase = LiveSequence::Phase;

TEST(LiveView, shows_a_prompt_in_its_chunks_and_then_an_answer_that_grows) {
  EngineRig rig;
  Request request = greedy_request(some_tokens(100), 20);
  request.max_chunk = 40;
  rig.submit(request);
  rig.engine().step();
  const LiveView prefill = rig.engine().live_view(Extent::kAll);
  ASSERT_EQ(prefill.sequences.size(), 1u);
  EXPECT_EQ(prefill.sequences[0].id, rig.last_id());
  EXPECT_EQ(prefill.sequences[0].phase, Phase::kPrefill);
  EXPECT_EQ(prefill.sequences[0].n_prompt, 100u);
  EXPECT_EQ(prefill.sequences[0].n_cached, 40u);
  ASSERT_EQ(prefill.steps.size(), 1u);
  EXPECT_EQ(prefill.steps[0].record.n_prefill_rows, 40u);
  EXPECT_TRUE(prefill.is_whole);
  EXPECT_EQ(prefill.pages.size(), 4u);

  for (int i = 0; i < 5; ++i) rig.engine().step();
  const LiveView decode = rig.engine().live_view(Extent::kChanges);
  EXPECT_EQ(decode.sequences[0].phase, Phase::kDecode);
  EXPECT_EQ(decode.sequences[0].n_generated, 4u);
  ASSERT_EQ(decode.steps.size(), 5u) << "those since the last view";
  EXPECT_EQ(decode.steps[0].number, 2u);
  EXPECT_EQ(decode.steps[4].record.n_decode_rows, 1u);
  EXPECT_FALSE(decode.is_whole);
  rig.run();
  const LiveView end = rig.engine().live_view(Extent::kChanges);
  ASSERT_EQ(end.sequences.size(), 1u);
  EXPECT_GT(end.sequences[0].age, Duration{});
  const TimePoint submitted = prefill.now - prefill.sequences[0].age;
  EXPECT_LT(end.sequences[0].age, end.now - submitted) << "it ends with the answer, not the view";
  EXPECT_EQ(end.sequences[0].phase, Phase::kEnded);
  EXPECT_EQ(end.sequences[0].n_generated, 20u);
  EXPECT_TRUE(rig.engine().live_view(Extent::kChanges).sequences.empty());
  EXPECT_EQ(end.engine.pages.cached, 4u);
}

TEST(LiveView, pages_of_a_common_prefix_have_as_many_owners_as_run) {
  EngineRig rig;
  const std::vector<TokenId> prompt = some_tokens(96);
  rig.run(greedy_request(prompt, 1));
  rig.engine().live_view(Extent::kAll);  // consumes the record of its end
  rig.submit(greedy_request(prompt, 40));
  rig.submit(greedy_request(prompt, 40));
  for (int i = 0; i < 3; ++i) rig.engine().step();
  const LiveView view = rig.engine().live_view(Extent::kAll);
  ASSERT_EQ(view.sequences.size(), 2u);
  EXPECT_GE(view.sequences[0].n_found, 64u);
  size_t n_shared = 0;
  for (const PageCell& cell : view.pages) n_shared += cell.n_owners == 2 ? 1 : 0;
  EXPECT_GE(n_shared, 2u);
  rig.run();
}

TEST(LiveView, a_long_pause_keeps_the_newest_steps) {
  EngineRig rig({.speculation = kNoSpeculation});
  const auto n_prompt = 8u, n_answer = 300u;
  rig.run(greedy_request(some_tokens(n_prompt), n_answer));
  const LiveView view = rig.engine().live_view(Extent::kChanges);
  ASSERT_EQ(view.steps.size(), LiveRecorder::kSteps);
  EXPECT_EQ(view.steps.back().number, view.engine.steps);
  for (size_t i = 1; i < view.steps.size(); ++i)
    EXPECT_EQ(view.steps[i].number, view.steps[i - 1].number + 1);
}

// Records the views that it receives.
class Watcher final : public LiveSink {
 public:
  void on_view(std::shared_ptr<const LiveView> view) override {
    const std::scoped_lock lock(mutex_);
    views_.push_back(std::move(view));
    times_.push_back(std::chrono::steady_clock::now());
    changed_.notify_all();
  }
  void on_end() override {
    const std::scoped_lock lock(mutex_);
    has_ended_ = true;
    changed_.notify_all();
  }

  using Views = std::vector<std::shared_ptr<const LiveView>>;
  // Waits up to 20 seconds until the predicate holds, and returns all views so far.
  Views wait_for(const std::function<bool(const Views&)>& is_enough) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return is_enough(views_); });
    return views_;
  }
  bool wait_for_end() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return has_ended_; });
  }
  std::vector<TimePoint> times() {
    const std::scoped_lock lock(mutex_);
    return times_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Views views_;
  std::vector<TimePoint> times_;
  bool has_ended_ = false;
};

class Watched {
 public:
  Watched()
      : parts_(make_tiny_engine({}, load_tiny({}), std::make_unique<SteadyClock>())),
        thread_(std::make_unique<EngineThread>(std::move(parts_.engine))) {}
  EngineThread& thread() { return *thread_; }
  void run(uint32_t n_answer) {
    const auto sink = std::make_shared<RecordingSink>();
    ASSERT_TRUE(thread_->submit(greedy_request(some_tokens(40), n_answer), sink).has_value());
    ASSERT_TRUE(sink->wait_for_finish());
  }

 private:
  TinyEngine parts_;
  std::unique_ptr<EngineThread> thread_;
};

TEST(LiveWatchers, an_idle_engine_sends_one_view_to_a_new_watcher) {
  Watched engine;
  const auto watcher = std::make_shared<Watcher>();
  ASSERT_TRUE(engine.thread().watch(watcher).has_value());
  const auto views = watcher->wait_for([](const auto& v) { return !v.empty(); });
  ASSERT_EQ(views.size(), 1u);
  EXPECT_TRUE(views[0]->is_whole);
}

TEST(LiveWatchers, the_last_view_after_work_shows_its_end) {
  Watched engine;
  const auto watcher = std::make_shared<Watcher>();
  ASSERT_TRUE(engine.thread().watch(watcher).has_value());
  engine.run(30);
  const auto is_over = [](const Watcher::Views& v) {
    return !v.empty() && v.back()->engine.n_finished(FinishReason::kLength) == 1 &&
           !v.back()->sequences.empty() && v.back()->sequences[0].phase == Phase::kEnded;
  };
  EXPECT_TRUE(is_over(watcher->wait_for(is_over)));
}

TEST(LiveWatchers, views_are_a_pause_apart_however_fast_the_steps_are) {
  Watched engine;
  const auto watcher = std::make_shared<Watcher>();
  ASSERT_TRUE(engine.thread().watch(watcher).has_value());
  const auto has_three = [](const Watcher::Views& v) { return v.size() >= 3; };
  while (watcher->times().size() < 3) engine.run(100);
  watcher->wait_for(has_three);
  const std::vector<TimePoint> times = watcher->times();
  for (size_t i = 1; i < times.size(); ++i)
    EXPECT_GE(times[i] - times[i - 1], LiveWatchers::kPause - std::chrono::milliseconds(20));
}

TEST(LiveWatchers, a_second_watcher_starts_with_a_whole_view) {
  Watched engine;
  engine.run(10);
  const auto first = std::make_shared<Watcher>();
  ASSERT_TRUE(engine.thread().watch(first).has_value());
  first->wait_for([](const auto& v) { return !v.empty(); });
  const auto second = std::make_shared<Watcher>();
  ASSERT_TRUE(engine.thread().watch(second).has_value());
  const auto views = second->wait_for([](const auto& v) { return !v.empty(); });
  ASSERT_FALSE(views.empty());
  EXPECT_TRUE(views[0]->is_whole);
  EXPECT_EQ(views[0]->pages.size(), 2u);
}

TEST(LiveWatchers, the_number_of_watchers_is_limited) {
  Watched engine;
  std::vector<std::shared_ptr<Watcher>> watchers;
  for (size_t i = 0; i < LiveWatchers::kMax; ++i) {
    watchers.push_back(std::make_shared<Watcher>());
    ASSERT_TRUE(engine.thread().watch(watchers.back()).has_value());
    watchers.back()->wait_for([](const auto& v) { return !v.empty(); });
  }
  const auto late = std::make_shared<Watcher>();
  const auto refused = engine.thread().watch(late);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kExhausted);
  std::weak_ptr<Watcher> leaving = watchers.back();
  watchers.pop_back();
  while (!leaving.expired()) std::this_thread::yield();  // the engine may be sending it a view
  EXPECT_TRUE(engine.thread().watch(late).has_value());
}

TEST(LiveWatchers, a_drain_ends_the_watch) {
  Watched engine;
  const auto watcher = std::make_shared<Watcher>();
  ASSERT_TRUE(engine.thread().watch(watcher).has_value());
  EXPECT_TRUE(engine.thread().drain(std::chrono::seconds(5)));
  EXPECT_TRUE(watcher->wait_for_end());
  EXPECT_EQ(engine.thread().watch(watcher).error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace kvik
