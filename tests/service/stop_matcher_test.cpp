#include "service/stop_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace kvik {
namespace {

TEST(StopMatcher, without_stops_all_text_passes_at_once) {
  StopMatcher stops({});
  EXPECT_EQ(stops.push("any text"), "any text");
  EXPECT_EQ(stops.finish(), "");
  EXPECT_FALSE(stops.matched().has_value());
}

TEST(StopMatcher, text_before_a_stop_is_sent_without_the_stop) {
  StopMatcher stops({"END"});
  EXPECT_EQ(stops.push("text END more"), "text ");
  EXPECT_EQ(stops.matched(), "END");
  EXPECT_EQ(stops.finish(), "");
}

TEST(StopMatcher, a_stop_may_span_any_number_of_pieces) {
  StopMatcher stops({"<end>"});
  EXPECT_EQ(stops.push("a<"), "a");
  EXPECT_EQ(stops.push("e"), "");
  EXPECT_EQ(stops.push("n"), "");
  EXPECT_EQ(stops.push("d"), "");
  EXPECT_FALSE(stops.matched().has_value());
  EXPECT_EQ(stops.push(">"), "");
  EXPECT_EQ(stops.matched(), "<end>");
}

TEST(StopMatcher, what_turns_out_to_be_no_stop_is_sent_after_all) {
  StopMatcher stops({"<end>"});
  EXPECT_EQ(stops.push("a<en"), "a");
  EXPECT_EQ(stops.push("try>"), "<entry>");
  EXPECT_FALSE(stops.matched().has_value());
}

TEST(StopMatcher, a_beginning_inside_a_failed_beginning_is_still_held_back) {
  StopMatcher stops({"aab"});
  EXPECT_EQ(stops.push("aa"), "");
  EXPECT_EQ(stops.push("a"), "a");
  EXPECT_EQ(stops.push("b"), "");
  EXPECT_EQ(stops.matched(), "aab");
}

TEST(StopMatcher, text_held_back_comes_when_no_more_follows) {
  StopMatcher stops({"END"});
  EXPECT_EQ(stops.push("the EN"), "the ");
  EXPECT_EQ(stops.finish(), "EN");
  EXPECT_FALSE(stops.matched().has_value());
}

TEST(StopMatcher, of_several_stops_the_earliest_in_the_text_wins) {
  StopMatcher stops({"world", "lo"});
  EXPECT_EQ(stops.push("hello world"), "hel");
  EXPECT_EQ(stops.matched(), "lo");
}

TEST(StopMatcher, of_stops_that_end_together_the_longest_wins) {
  for (const auto& list : {std::vector<std::string>{"c", "abc", "bc"}, {"abc", "bc", "c"}}) {
    StopMatcher stops(list);
    EXPECT_EQ(stops.push("xabc"), "x");
    EXPECT_EQ(stops.matched(), "abc");
  }
}

TEST(StopMatcher, a_stop_inside_a_longer_one_wins_however_the_text_is_cut) {
  // "bc" ends first, so it matches before the rest of "abcd" arrives.
  StopMatcher in_one({"abcd", "bc"});
  EXPECT_EQ(in_one.push("abcd"), "a");
  EXPECT_EQ(in_one.matched(), "bc");
  StopMatcher in_two({"abcd", "bc"});
  EXPECT_EQ(in_two.push("ab"), "");
  EXPECT_EQ(in_two.push("cd"), "a");
  EXPECT_EQ(in_two.matched(), "bc");
}

TEST(StopMatcher, bytes_of_longer_characters_are_bytes_like_others) {
  StopMatcher stops({"。"});
  EXPECT_EQ(stops.push("你好。再见"), "你好");
  EXPECT_EQ(stops.matched(), "。");
}

// Reference: the first position at which a stop string ends, and the longest that ends there.
struct Naive {
  std::string sent;
  std::optional<std::string> matched;

  Naive(const std::vector<std::string>& stops, const std::string& text) {
    for (const char c : text) {
      sent += c;
      for (const std::string& stop : stops) {
        if (!sent.ends_with(stop)) continue;
        if (!matched || stop.size() > matched->size()) matched = stop;
      }
      if (!matched) continue;
      sent.resize(sent.size() - matched->size());
      return;
    }
  }
};

TEST(StopMatcher, agrees_with_a_naive_search_however_the_text_is_cut) {
  std::mt19937 random(1);
  const auto below = [&](size_t n) { return random() % n; };
  const auto word = [&](size_t n) {
    std::string text;
    for (size_t i = 0; i < n; ++i) text += static_cast<char>('a' + below(3));
    return text;
  };
  int n_matched = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> list;
    for (size_t i = below(4); i > 0; --i) list.push_back(word(1 + below(6)));
    const std::string text = word(below(40));
    const Naive naive(list, text);
    StopMatcher stops(list);
    std::string sent;
    for (size_t at = 0; at < text.size() && !stops.matched();) {
      const size_t n = std::min(1 + below(7), text.size() - at);
      sent += stops.push(text.substr(at, n));
      at += n;
      ASSERT_TRUE(naive.sent.starts_with(sent)) << "a part of a stop was sent: " << sent;
    }
    sent += stops.finish();
    ASSERT_EQ(sent, naive.sent) << text;
    ASSERT_EQ(stops.matched(), naive.matched) << text;
    n_matched += stops.matched().has_value();
  }
  EXPECT_GT(n_matched, 5000);
  EXPECT_LT(n_matched, 18000);
}

TEST(StopMatcher, holds_back_no_more_than_could_become_a_stop) {
  std::mt19937 random(2);
  for (int round = 0; round < 2000; ++round) {
    StopMatcher stops({"abab", "bba"});
    std::string pushed, sent;
    while (!stops.matched() && pushed.size() < 30) {
      const char c = static_cast<char>('a' + random() % 2);
      pushed += c;
      sent += stops.push(std::string(1, c));
      if (stops.matched()) break;
      const std::string held = pushed.substr(sent.size());
      ASSERT_TRUE(std::string("abab").starts_with(held) || std::string("bba").starts_with(held));
    }
  }
}

TEST(StopMatcherDeathTest, push_after_a_match_fails_a_check) {
  StopMatcher stops({"x"});
  EXPECT_EQ(stops.push("x"), "");
  EXPECT_DEATH(stops.push("y"), "does not hold");
}

}  // namespace
}  // namespace kvik
