#include "engine/watch/step_hooks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "support/tiny_engine.h"

namespace kvik {
namespace {

// Otherwise the engine would finish the step of a prompt whose client has disconnected.
TEST(StepHooks, cancelling_a_prompt_aborts_the_step_between_layers) {
  EngineRig rig;
  uint32_t n_asked = 0, n_begun = 0;
  std::vector<RequestId> cancelled;
  rig.engine().set_step_hooks(
      {.on_begin = [&](const RunningStep&, uint32_t, uint32_t) { ++n_begun; },
       .are_cancelled =
           [&](std::span<const RequestId> ids) {
             ++n_asked;
             return std::ranges::all_of(ids, [&](RequestId id) {
               return std::ranges::find(cancelled, id) != cancelled.end();
             });
           }});
  const Request request = greedy_request(some_tokens(60), 5);
  const std::vector<TokenId> expected = EngineRig().run(request)->tokens();
  const auto sink = std::make_shared<RecordingSink>();
  cancelled = {RequestId{7}};
  rig.engine().submit(RequestId{7}, request, sink);
  EXPECT_TRUE(rig.engine().step());
  EXPECT_EQ(n_begun, 1u);
  EXPECT_EQ(n_asked, 1u) << "before the first layer";
  ASSERT_TRUE(sink->is_finished());
  EXPECT_EQ(sink->finishes(), std::vector{FinishReason::kCancelled});
  EXPECT_EQ(rig.engine().snapshot().pages.leased, 0u);
  // Later requests are computed as if nothing had happened.
  cancelled.clear();
  EXPECT_EQ(rig.run(request)->tokens(), expected);
}

TEST(StepHooks, a_step_continues_if_one_request_is_not_cancelled) {
  EngineRig rig;
  rig.engine().set_step_hooks({.on_begin = {}, .are_cancelled = [](std::span<const RequestId> ids) {
                                 return ids.size() == 1;  // only one of two
                               }});
  const auto first = std::make_shared<RecordingSink>(), second = std::make_shared<RecordingSink>();
  rig.engine().submit(RequestId{1}, greedy_request(some_tokens(20, 1), 1), first);
  rig.engine().submit(RequestId{2}, greedy_request(some_tokens(20, 2), 1), second);
  EXPECT_TRUE(rig.engine().step());
  EXPECT_EQ(first->tokens().size(), 1u);
  EXPECT_EQ(second->tokens().size(), 1u);
}

}  // namespace
}  // namespace kvik
