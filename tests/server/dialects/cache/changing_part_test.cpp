#include "server/dialects/cache/changing_part.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

namespace kvik {
namespace {

namespace json = boost::json;

TEST(ChangingPart, dates_and_times_are_recognized_wherever_they_are_split) {
  for (const auto& [before, after] :
       {std::pair("now: ", "2026-11-22T14:05:00Z"), std::pair("now: 2026-11-", "22"),
        std::pair("it is 14:0", "5 now"), std::pair("22.11.202", "6"),
        std::pair("Sun Nov ", "22 14:05"), std::pair("the 2", "2nd of November 2026"),
        std::pair("Today is ", "Wednesday, September 30, 2026."), std::pair("on 11/", "2/2026"),
        std::pair("Fri", "day, November 27"), std::pair("since 3 ", "Novem"),
        std::pair("at 9:59", ":30"), std::pair("Time: 16:", "10"), std::pair("16:1", "0 UTC"),
        std::pair("2026-11-22 16:", "10, sunny"), std::pair("build 16:10", ":07 done")}) {
    EXPECT_EQ(changing_part({before, after, ""}), "date") << before << "|" << after;
  }
  for (const auto& [before, after] :
       {std::pair("My name is ", "Caliban"), std::pair("version 3.1", "4 of it"),
        std::pair("it costs ", "500 pounds"), std::pair("", ""), std::pair("a-b-", "c-d"),
        std::pair("May I go? The ", "Mongols may"), std::pair("version 2.1.", "330.1 is out"),
        std::pair("connect to 127.0.", "0.1:8080"), std::pair("src/main.cpp:12:", "5: error"),
        std::pair("Marking ", "22 papers"), std::pair("on Nov 3 ", "the parser"),
        std::pair("Decimal ", "10"), std::pair("a ratio of 16:", "9 or 4:3"),
        std::pair("a ratio of 16:", "10 or 4:3"), std::pair("verse 3:", "16 of it"),
        std::pair("a width of 16:1", "0"), std::pair("OpenVINO 2026.", "4.1")}) {
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
        std::pair("I have 3 ", "apples"), std::pair("a batch of ", "192 tokens of prose"),
        std::pair("in this session ", "you"), std::pair("llama-3", ".2-1b-instruct"),
        std::pair("x-anthropic-", "version: 1")}) {
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

TEST(ChangingPart, what_agents_tell_about_their_folder_is_recognized) {
  for (const auto& [before, after] :
       {std::pair("  Working directory: /srv/me/", "story\n"),
        std::pair("  <cwd>", "/srv/app</cwd>"), std::pair("Primary working directory:", " /srv/me"),
        std::pair("Working directory: C:\\me\\", "a"),
        std::pair("memory at `/srv/", "me/.claude/projects/-srv-me/memory/`")}) {
    EXPECT_EQ(changing_part({before, after, ""}), "working_directory") << before << "|" << after;
  }
  for (const auto& [before, after] :
       {std::pair("Look at /srv/me/", "story.txt"), std::pair("the working directory: ", "none"),
        std::pair("It has a working directory", " and"),
        std::pair("Contents of /srv/", "notes.txt")}) {
    EXPECT_EQ(changing_part({before, after, ""}), "") << before << "|" << after;
  }
  EXPECT_EQ(changing_part({"user-", "other/memory/`", "memory at `/srv/me/.claude/projects/-srv-"}),
            "working_directory");
  EXPECT_EQ(changing_part({"Platform: ", "linux\n", "<env>\n"}), "environment");
  EXPECT_EQ(changing_part({"Platform: ", "linux\n", "<env>\n</env>\n"}), "");
  EXPECT_EQ(changing_part({"\n M ", "parser.cpp", "x\nCurrent branch: main\n"}), "git_status");
  EXPECT_EQ(changing_part({"<|im_end|>\n", "parser", "x\nCurrent branch: main\n"}), "");
}

// A request of an agent as ChatML.
std::string rendered(const json::object& request) {
  std::string out;
  if (const auto* tools = request.if_contains("tools"))
    out += "<|im_start|>system\n<tools>\n" + json::serialize(*tools) + "\n</tools><|im_end|>\n";
  for (const json::value& message : request.at("messages").as_array()) {
    out += "<|im_start|>" + std::string(message.at("role").as_string()) + "\n" +
           std::string(message.at("content").as_string()) + "<|im_end|>\n";
  }
  return out;
}

// Returns the text around a place, as the server cuts it from tokens of about four bytes.
TextAround around(const std::string& text, size_t at) {
  constexpr size_t kBefore = 96, kAfter = 64, kEarlier = 4000;
  const size_t before = at - std::min(at, kBefore), earlier = before - std::min(before, kEarlier);
  return {text.substr(before, at - before), text.substr(at, kAfter),
          text.substr(earlier, before - earlier)};
}

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

json::array recorded_requests() {
  return json::parse(content_of(KVIK_SOURCE_DIR "/tests/agents/moving_parts.json")).as_array();
}

TEST(ChangingPart, moving_parts_of_recorded_agents_are_named) {
  const json::array recorded = recorded_requests();
  ASSERT_GT(recorded.size(), 20);
  for (const json::value& entry : recorded) {
    const std::string before = rendered(entry.at("before").as_object());
    const std::string after = rendered(entry.at("after").as_object());
    const auto place = std::ranges::mismatch(before, after).in2 - after.begin();
    constexpr size_t kTokenBytes = 3;  // of the differing token, before the differing byte
    for (size_t n = 0; n < kTokenBytes; ++n) {
      const size_t at = static_cast<size_t>(place) - n;
      // A blank begins a token.
      if (std::string_view(after).substr(at, n).find_first_of(" \n", 1) != std::string::npos) break;
      const TextAround text = around(after, at);
      EXPECT_EQ(changing_part(text), entry.at("looks_like").as_string())
          << entry.at("agent") << ": " << entry.at("about") << "\n"
          << text.before << "|" << text.after;
    }
  }
}

// Counts the places of a text that are named, and fails for a part of an agent.
struct Named {
  size_t n_places = 0, n_values = 0;  // values: dates, ids and numbers of tokens

  void read(const std::string& text, const std::string& name) {
    constexpr size_t kDistance = 41;
    for (size_t at = 0; at < text.size(); at += kDistance, ++n_places) {
      const TextAround place = around(text, at);
      const std::string_view part = changing_part(place);
      const bool is_value = part == "date" || part == "id" || part == "token_count";
      n_values += is_value ? 1 : 0;
      if (part.empty() || is_value) continue;
      ADD_FAILURE() << name << ": " << part << ": " << place.before << "|" << place.after;
    }
  }
};

TEST(ChangingPart, ordinary_text_is_no_part_of_an_agent) {
  Named named;
  // Not performance.md: the commits it names are ids.
  for (const char* const name :
       {"/README.md", "/ARCHITECTURE.md", "/LICENSE", "/docs/design/kv_cache.md",
        "/docs/guides/coding_agents.md", "/tests/e2e/texts/harbor.txt"}) {
    const std::string text = content_of(std::string(KVIK_SOURCE_DIR) + name);
    ASSERT_FALSE(text.empty()) << name;
    named.read(text, name);
  }
  EXPECT_LT(named.n_values * 200, named.n_places);
}

// Reads the messages of a user, a model and its tools in recorded sessions.
TEST(ChangingPart, texts_of_recorded_tasks_are_no_part_of_an_agent) {
  const std::filesystem::path folder = KVIK_SOURCE_DIR "/../shared/data/traces/swe_agent";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " does not exist";
  Named named;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::string text;
    const json::value trajectory = json::parse(content_of(entry.path()));
    for (const json::value& message : trajectory.at("history").as_array()) {
      const json::value& content = message.at("content");
      if (content.is_string())
        text += "<|im_start|>" + std::string(content.as_string()) + "<|im_end|>\n";
    }
    named.read(text, entry.path().filename());
  }
  EXPECT_GT(named.n_places, 5000u);
  EXPECT_LT(named.n_values * 100, named.n_places);
}

}  // namespace
}  // namespace kvik
