#include "base/quantity.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvik {
namespace {

using ::testing::HasSubstr;

TEST(Quantity, sizes_are_bytes_or_carry_a_binary_unit) {
  EXPECT_EQ(parse_bytes("0"), 0u);
  EXPECT_EQ(parse_bytes("512"), 512u);
  EXPECT_EQ(parse_bytes("64KiB"), 65536u);
  EXPECT_EQ(parse_bytes("1.5GiB"), 1610612736u);
  EXPECT_EQ(parse_bytes("4GiB"), 4ULL << 30);
  EXPECT_EQ(parse_bytes("2TiB"), 2ULL << 40);
  EXPECT_EQ(parse_bytes("80GB"), 80'000'000'000u);
  EXPECT_EQ(parse_bytes("1.5kB"), 1500u);
  EXPECT_EQ(parse_bytes("2MB"), 2'000'000u);
}

TEST(Quantity, counts_take_k_as_1024) {
  EXPECT_EQ(parse_count("512"), 512u);
  EXPECT_EQ(parse_count("128k"), 131072u);
  EXPECT_EQ(parse_count("128K"), 131072u);
  EXPECT_EQ(parse_count("1M"), 1048576u);
}

TEST(Quantity, text_that_is_no_size_is_named) {
  for (const char* text : {"", " ", "GiB", "-1", "-4GiB", "4Gb", "4 GiB", "4GIB", "4GiBs", "1e9",
                           "0x10", "nan", "inf", "0.3", "99999999999TiB", "4gib", "1,5GiB", "+4"}) {
    const auto bytes = parse_bytes(text);
    ASSERT_FALSE(bytes) << text;
    EXPECT_EQ(bytes.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(bytes.error().message, HasSubstr(fmt::format("'{}'", text)));
  }
  for (const char* text : {"", "k", "-3", "1.5", "4KiB", "1G"}) EXPECT_FALSE(parse_count(text));
}

TEST(Quantity, times_carry_their_unit) {
  using namespace std::chrono_literals;
  EXPECT_EQ(parse_duration("50ms"), 50ms);
  EXPECT_EQ(parse_duration("0.07s"), 70ms);
  EXPECT_EQ(parse_duration("200us"), 200us);
  EXPECT_EQ(parse_duration("2min"), 120s);
  EXPECT_EQ(parse_duration("0"), 0s);
  EXPECT_EQ(parse_duration("0ms"), 0s);
  for (const char* text : {"", "50", "ms", "-1s", "1 s", "1h", "nan", "1e3ms"}) {
    const auto time = parse_duration(text);
    ASSERT_FALSE(time) << text;
    EXPECT_THAT(time.error().message, HasSubstr(fmt::format("'{}' is not a time", text)));
  }
}

TEST(Quantity, several_counts_stand_with_commas_between) {
  EXPECT_EQ(parse_counts("0,1k,8k"), std::vector<uint64_t>({0, 1024, 8192}));
  EXPECT_EQ(parse_counts("7"), std::vector<uint64_t>({7}));
  for (const char* text : {"", ",", "1,", ",1", "1,,2", "1, 2", "1,x"}) {
    EXPECT_FALSE(parse_counts(text)) << text;
  }
}

TEST(Quantity, sizes_are_shown_in_the_largest_unit_that_fits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(1610612736), "1.50 GiB");
  EXPECT_EQ(format_bytes(3ULL << 40), "3.00 TiB");
}

}  // namespace
}  // namespace kvik
