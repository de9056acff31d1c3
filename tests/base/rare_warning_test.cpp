#include "base/rare_warning.h"

#include <gtest/gtest.h>

namespace kvik {
namespace {

using std::chrono::milliseconds;

TEST(RareWarning, comes_once_a_second_and_says_how_many_were_left_out) {
  log::RareWarning warning;
  const auto start = log::RareWarning::Clock::now();
  EXPECT_EQ(warning.due(start), 0u);
  EXPECT_FALSE(warning.due(start));
  EXPECT_FALSE(warning.due(start + milliseconds(999)));
  EXPECT_EQ(warning.due(start + milliseconds(1000)), 2u);
  EXPECT_FALSE(warning.due(start + milliseconds(1001)));
  EXPECT_EQ(warning.due(start + milliseconds(9000)), 1u);
}

}  // namespace
}  // namespace kvik
