#include "cli/chat_input.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvik {
namespace {

// The inputs that these lines make; "…" last where one is not complete.
std::vector<std::string> inputs(std::initializer_list<const char*> lines) {
  ChatInput input;
  std::vector<std::string> out;
  for (const char* line : lines) {
    if (auto whole = input.push(line)) out.push_back(*whole);
  }
  if (input.is_open()) out.emplace_back("…");
  return out;
}
using Inputs = std::vector<std::string>;

TEST(ChatInput, a_line_is_an_input) {
  EXPECT_EQ(inputs({"Hello", " there "}), (Inputs{"Hello", " there "}));
}

TEST(ChatInput, a_backslash_at_the_end_goes_on_in_the_next_line) {
  EXPECT_EQ(inputs({"a\\", "b\\", "c"}), (Inputs{"a\nb\nc"}));
  EXPECT_EQ(inputs({"a\\b"}), (Inputs{"a\\b"}));
  EXPECT_EQ(inputs({"a\\"}), (Inputs{"…"}));
}

TEST(ChatInput, three_quotes_hold_lines_together) {
  EXPECT_EQ(inputs({"\"\"\"a", "b", "c\"\"\""}), (Inputs{"a\nb\nc"}));
  EXPECT_EQ(inputs({"\"\"\"", "a", "", "b", "\"\"\""}), (Inputs{"a\n\nb"}));
  EXPECT_EQ(inputs({"\"\"\"one line\"\"\""}), (Inputs{"one line"}));
  EXPECT_EQ(inputs({"  \"\"\"a", "b\"\"\"  "}), (Inputs{"  a\nb"}));
}

TEST(ChatInput, only_three_quotes_at_a_lines_end_close_a_block) {
  EXPECT_EQ(inputs({"\"\"\"", "x = \"\"\"y\"\"\" + z", "w\\", "\"\"\""}),
            (Inputs{"x = \"\"\"y\"\"\" + z\nw\\"}));
  EXPECT_EQ(inputs({"\"\"\"", "a\"\"", "b"}), (Inputs{"…"}));
  EXPECT_EQ(inputs({"\"\"\"\"", "a\"\"\""}), (Inputs{"\"\na"}));
}

TEST(ChatInput, a_block_may_stand_behind_a_command) {
  EXPECT_EQ(inputs({"/system \"\"\"Be", "brief.\"\"\""}), (Inputs{"/system Be\nbrief."}));
  EXPECT_EQ(inputs({"say \"\"\"this"}), (Inputs{"say \"\"\"this"}));
}

TEST(ChatInput, a_paste_of_several_lines_is_one_input) {
  EXPECT_EQ(inputs({"make \\\n  all\ndone"}), (Inputs{"make \\\n  all\ndone"}));
  EXPECT_EQ(inputs({"\"\"\"a\nb\"\"\"", "c"}), (Inputs{"a\nb", "c"}));
}

TEST(ChatInput, what_was_typed_gives_the_same_input_again) {
  ChatInput input;
  for (const std::vector<std::string>& lines :
       {Inputs{"a\\", "b"}, Inputs{"\"\"\"", "a\\", "b", "\"\"\""}, Inputs{"plain"}}) {
    std::optional<std::string> whole;
    for (const std::string& line : lines) whole = input.push(line);
    ASSERT_TRUE(whole);
    const std::string typed = input.typed();
    EXPECT_EQ(input.push(typed), whole);
    EXPECT_EQ(input.typed(), typed);
  }
}

TEST(ChatInput, reset_gives_up_what_came) {
  ChatInput input;
  EXPECT_FALSE(input.push("\"\"\"a"));
  input.reset();
  EXPECT_FALSE(input.is_open());
  EXPECT_EQ(input.push("b"), "b");
}

}  // namespace
}  // namespace kvik
