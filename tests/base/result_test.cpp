#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace kvik {
namespace {

Result<int> half_of(int n) {
  if (n % 2 != 0) return fail(ErrorCode::kInvalidArgument, std::to_string(n) + " is odd", "n");
  return n / 2;
}

Result<int> quarter_of(int n) {
  TRY_ASSIGN(const int half, half_of(n));
  TRY_ASSIGN(const int quarter, half_of(half));
  return quarter;
}

Result<void> check_even(int n) {
  TRY(half_of(n));
  return {};
}

Result<std::unique_ptr<int>> boxed(int n) {
  TRY(check_even(n));
  return std::make_unique<int>(n);
}

Result<std::unique_ptr<int>> boxed_again(int n) {
  TRY_ASSIGN(auto box, boxed(n));
  return box;
}

TEST(Result, try_assign_gives_the_value) {
  EXPECT_EQ(quarter_of(12), 3);
  EXPECT_TRUE(check_even(2));
}

TEST(Result, the_first_error_reaches_the_caller_whole) {
  for (const auto& result : {quarter_of(7), quarter_of(14)}) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(result.error().message, "7 is odd");
    EXPECT_EQ(result.error().param, "n");
  }
  EXPECT_FALSE(check_even(3));
}

TEST(Result, values_that_only_move_pass_through) {
  auto box = boxed_again(4);
  ASSERT_TRUE(box);
  EXPECT_EQ(**box, 4);
  EXPECT_FALSE(boxed_again(5));
}

}  // namespace
}  // namespace kvik
