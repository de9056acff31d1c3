#include "server/dialects/cache/cache_explanation.h"

#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

namespace kvik {
namespace {

Usage diverged() {
  Usage usage;
  usage.prompt_tokens = 100;
  usage.cached_tokens = 70;
  usage.cache = {.ram_tokens = 64,
                 .tier_tokens = 6,
                 .miss = MissReason::kDiverged,
                 .position = 70,
                 .expected = 17,
                 .got = 99};
  return usage;
}

std::string explained(const Usage& usage, CacheReach reach) {
  return boost::json::serialize(explanation_json(std::span(&usage, 1), reach));
}

TEST(CacheExplanation, the_parts_of_a_prompt_add_up_and_the_miss_has_its_reason) {
  EXPECT_EQ(explained(diverged(), CacheReach::kAllClients),
            R"([{"prompt_tokens":100,"cached_tokens":{"ram":64,"tiers":6},"computed_tokens":30,)"
            R"("restored_tokens":0,)"
            R"("miss":{"reason":"diverged","position":70,"expected_token":17,"got_token":99}}])");
}

TEST(CacheExplanation, position_of_the_resumed_state_is_described) {
  Usage usage;
  usage.prompt_tokens = 3107;
  usage.cached_tokens = 2944;
  usage.cache.ram_tokens = 2944;
  usage.cache.miss = MissReason::kNoSnapshot;
  usage.cache.position = 2944;
  EXPECT_NE(explained(usage, CacheReach::kOtherTenants)
                .find(R"("miss":{"reason":"no_snapshot","position":2944,)"
                      R"("says":"resumed at 2,944 of 3,107: the nearest snapshot"})"),
            std::string::npos);
}

TEST(CacheExplanation, a_prompt_that_missed_nothing_has_no_miss) {
  Usage usage;
  usage.prompt_tokens = 8;
  usage.cached_tokens = 7;
  usage.cache.ram_tokens = 7;
  EXPECT_EQ(explained(usage, CacheReach::kOtherTenants),
            R"([{"prompt_tokens":8,"cached_tokens":{"ram":7,"tiers":0},"computed_tokens":1,)"
            R"("restored_tokens":0,)"
            R"("miss":null}])");
}

TEST(CacheExplanation, tokens_of_other_tenants_are_not_reported) {
  const std::string text = explained(diverged(), CacheReach::kOtherTenants);
  EXPECT_EQ(text.find("expected"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("got_token":99)"), std::string::npos) << text;
  EXPECT_NE(explained(diverged(), CacheReach::kOwnSalt).find("expected"), std::string::npos);
}

TEST(CacheExplanation, text_around_a_miss_and_its_kind_are_reported) {
  const Usage usage = diverged();
  const auto text_of = [](size_t prompt, uint32_t position) -> std::optional<TextAround> {
    EXPECT_EQ(prompt, 0u);
    EXPECT_EQ(position, 70u);
    return TextAround{"Today is 2026-11-2", "2, Sunday", ""};
  };
  const std::string text = boost::json::serialize(
      explanation_json(std::span(&usage, 1), CacheReach::kOtherTenants, text_of));
  EXPECT_NE(text.find(R"("text":{"before":"Today is 2026-11-2","behind":"2, Sunday"},)"
                      R"("looks_like":"date")"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace kvik
