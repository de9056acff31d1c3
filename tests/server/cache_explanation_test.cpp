#include "server/dialects/cache_explanation.h"

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
  EXPECT_EQ(explained(diverged(), CacheReach::kEverybody),
            R"([{"prompt_tokens":100,"cached_tokens":{"ram":64,"tiers":6},"computed_tokens":30,)"
            R"("miss":{"reason":"diverged","position":70,"expected_token":17,"got_token":99}}])");
}

TEST(CacheExplanation, a_prompt_that_missed_nothing_has_no_miss) {
  Usage usage;
  usage.prompt_tokens = 8;
  usage.cached_tokens = 7;
  usage.cache.ram_tokens = 7;
  EXPECT_EQ(explained(usage, CacheReach::kStrangers),
            R"([{"prompt_tokens":8,"cached_tokens":{"ram":7,"tiers":0},"computed_tokens":1,)"
            R"("miss":null}])");
}

TEST(CacheExplanation, another_tenants_tokens_are_not_told) {
  const std::string text = explained(diverged(), CacheReach::kStrangers);
  EXPECT_EQ(text.find("expected"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("got_token":99)"), std::string::npos) << text;
  EXPECT_NE(explained(diverged(), CacheReach::kOwnSalt).find("expected"), std::string::npos);
}

}  // namespace
}  // namespace kvik
