#include "engine/agent_gaps.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvik {
namespace {

TEST(AgentGaps, are_seconds_of_at_most_a_day) {
  const std::vector<std::string> good = {"0.5", "60", "86400"};
  const auto gaps_s = read_agent_gaps(good);
  ASSERT_TRUE(gaps_s) << gaps_s.error().message;
  EXPECT_EQ(*gaps_s, (std::vector<double>{0.5, 60, 86400}));
  for (const char* const bad : {"", "x", "0", "-1", "5s", "nan", "inf", "86401"}) {
    const std::vector<std::string> values = {"60", bad};
    const auto refused = read_agent_gaps(values);
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().message,
              "--agents-each is '" + std::string(bad) + "', expected seconds from 0.001 to 86400");
  }
  EXPECT_FALSE(read_agent_gaps({})) << "no value";
}

}  // namespace
}  // namespace kvik
