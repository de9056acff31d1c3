#include "server/dialects/cache/changing_part.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace kvik {
namespace {

TEST(ChangingPart, dates_and_times_are_recognized_wherever_they_are_split) {
  for (const auto& [before, after] :
       {std::pair("now: ", "2026-11-22T14:05:00Z"), std::pair("now: 2026-11-", "22"),
        std::pair("it is 14:0", "5 now"), std::pair("22.11.202", "6"),
        std::pair("Sun Nov ", "22 14:05"), std::pair("the 2", "2nd of November 2026"),
        std::pair("at 9:59", ":30")}) {
    EXPECT_EQ(changing_part({before, after, ""}), "date") << before << "|" << after;
  }
  for (const auto& [before, after] :
       {std::pair("My name is ", "Caliban"), std::pair("version 3.1", "4 of it"),
        std::pair("it costs ", "500 pounds"), std::pair("", ""), std::pair("a-b-", "c-d"),
        std::pair("May I go? The ", "Mongols may")}) {
    EXPECT_EQ(changing_part({before, after, ""}), "") << before << "|" << after;
  }
}

TEST(ChangingPart, ids_and_token_counts_are_recognized) {
  for (const auto& [before, after] :
       {std::pair("x-anthropic-billing-header: cc_version=2.1; cch=", "3f9a1;"),
        std::pair("cc_entrypoint=cli; cch=3f", "9a1;"),
        std::pair("Session: 0b5f7e6a-11", "d2-4c8e-9a77-aa12bc34de56"),
        std::pair("\"session_id\": \"", "alpha\""), std::pair("commit 04c0cc", "41f"),
        std::pair("user_01HZX7Q2", "K9M4TB5N6P8RSVWXYZ")}) {
    EXPECT_EQ(changing_part({before, after, ""}), "id") << before << "|" << after;
  }
  for (const auto& [before, after] : {std::pair("Token usage: ", "41230/200000; 158770 remaining"),
                                      std::pair("Token usage: 41230/200000; 158", "770 remaining"),
                                      std::pair("You have ", "12,345 tokens left")}) {
    EXPECT_EQ(changing_part({before, after, ""}), "token_count") << before << "|" << after;
  }
  for (const auto& [before, after] :
       {std::pair("the facade of ", "deadbeef"), std::pair("decade-", "long"),
        std::pair("I have 3 ", "apples"), std::pair("in this session ", "you"),
        std::pair("llama-3", ".2-1b-instruct")}) {
    EXPECT_EQ(changing_part({before, after, ""}), "") << before << "|" << after;
  }
}

TEST(ChangingPart, reminders_are_recognized_at_their_begin_and_inside) {
  const std::string begin = "Fix it.\n<system-reminder>\nThe list ";
  const std::string whole = begin + "is empty.\n</system-reminder>";
  EXPECT_EQ(changing_part({"of tasks is", " empty.", begin}), "reminder");
  EXPECT_EQ(changing_part({"Fix it.\n", "<system-reminder>\nThe", ""}), "reminder");
  EXPECT_EQ(changing_part({"Fix it.\n<system", "-reminder>\nThe", ""}), "reminder");
  EXPECT_EQ(changing_part({"\nNow", "<system-reminder>\nThe", whole}), "reminder");
  EXPECT_EQ(changing_part({"\nNow", " go on", whole}), "");
}

TEST(ChangingPart, definitions_of_tools_are_recognized) {
  const std::string chatml = "<tools>\n{\"type\": \"function\", \"function\": {\"name\": \"";
  const std::string harmony = "namespace functions {\n\n// Reads a file\ntype ";
  const std::string llama =
      "{\n    \"type\": \"function\",\n    \"function\": {\n        \"name\": \"";
  for (const std::string& before : {chatml, harmony, llama}) {
    EXPECT_EQ(changing_part({before, "read\"", ""}), "tool") << before;
    EXPECT_EQ(changing_part({"a", "read\"", before}), "tool") << before;
  }
  for (const char* const end : {"\n</tools>\n", "<end_of_turn>\n", "</s>", "\n\n", "<|im_end|>"})
    EXPECT_EQ(changing_part({"Go", " on", chatml + "a\"}}" + end}), "") << end;
  EXPECT_EQ(changing_part({"the function", " of it", ""}), "");
}

}  // namespace
}  // namespace kvik
