#include "base/text/nearest_name.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvik {
namespace {

const std::vector<std::string> kCommands = {"run", "serve", "show", "bench", "tokenize"};

TEST(NearestName, letters_left_out_added_replaced_or_swapped_are_forgiven) {
  EXPECT_EQ(nearest_name("serv", kCommands), "serve");
  EXPECT_EQ(nearest_name("serrve", kCommands), "serve");
  EXPECT_EQ(nearest_name("tokenise", kCommands), "tokenize");
  EXPECT_EQ(nearest_name("rnu", kCommands), "run");
  EXPECT_EQ(nearest_name("SERVE", kCommands), "serve");
}

TEST(NearestName, another_word_has_no_near_name) {
  EXPECT_EQ(nearest_name("download", kCommands), "");
  EXPECT_EQ(nearest_name("x", kCommands), "");
  EXPECT_EQ(nearest_name("", kCommands), "");
  EXPECT_EQ(nearest_name(std::string(100'000, 's'), kCommands), "");
}

TEST(NearestName, the_suggestion_is_a_question) {
  EXPECT_EQ(did_you_mean("benhc", kCommands), "; did you mean bench?");
  EXPECT_EQ(did_you_mean("download", kCommands), "");
}

}  // namespace
}  // namespace kvik
