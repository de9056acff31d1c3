#include "server/http/trace_parent.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace kvik {
namespace {

constexpr const char* kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr const char* kSpan = "00f067aa0ba902b7";

std::string header(std::string_view version, std::string_view flags = "01",
                   std::string_view rest = "") {
  return fmt::format("{}-{}-{}-{}{}", version, kTrace, kSpan, flags, rest);
}

TEST(TraceParent, has_a_trace_and_a_span) {
  const auto trace = parse_trace_parent(header("00"));
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->trace_id, kTrace);
  EXPECT_EQ(trace->span_id, kSpan);
}

TEST(TraceParent, a_later_version_may_have_more_fields) {
  EXPECT_TRUE(parse_trace_parent(header("01", "01", "-more")));
  EXPECT_FALSE(parse_trace_parent(header("00", "01", "-more")));
  EXPECT_FALSE(parse_trace_parent(header("01", "01", "more")));
}

TEST(TraceParent, invalid_headers_are_ignored) {
  for (const std::string& text :
       {std::string(), std::string("00"), header("ff"), header("0g"), header("00", "0x"),
        std::string("00-00000000000000000000000000000000-00f067aa0ba902b7-01"),
        std::string("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"),
        std::string("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01"),
        std::string("00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        std::string(10'000, '0')})
    EXPECT_FALSE(parse_trace_parent(text)) << text;
}

}  // namespace
}  // namespace kvik
