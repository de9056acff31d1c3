#include "cli/chat_commands.h"

#include <gmock/gmock.h>

#include <fstream>

#include "chat_fixture.h"

namespace kvik {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

class Commands : public ChatFixture {
 protected:
  // The screen after these lines alone.
  const std::string& after(std::initializer_list<const char*> lines) {
    for (const char* line : lines) console.type(line);
    return run();
  }
  std::string content(const std::string& name) const {
    std::ifstream file(path(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
  }
};

TEST_F(Commands, help_lists_every_command) {
  after({"/help"});
  for (const char* name : {"/help", "/set", "/show", "/system", "/save", "/load", "/clear",
                           "/regen", "/stats", "/bye", "Ctrl-C", "Ctrl-D", "\"\"\""}) {
    EXPECT_TRUE(console.shows(name)) << name;
  }
}

TEST_F(Commands, an_unknown_one_is_a_sentence_and_no_message) {
  EXPECT_THAT(after({"/sing a song"}),
              HasSubstr("<error>'/sing' is not a command; /help lists them"));
  EXPECT_THAT(service.prompts, IsEmpty());
}

TEST_F(Commands, a_blank_before_the_slash_makes_a_message) {
  service.scripts = {says("A folder.")};
  after({" /usr is what?"});
  EXPECT_THAT(service.prompts, ElementsAre("user:  /usr is what?|"));
}

TEST_F(Commands, bye_leaves_and_so_do_its_other_names) {
  for (const char* name : {"/bye", "/exit", "/quit", " /bye", "/bye  "}) {
    FakeConsole alone;
    alone.type(name[0] == ' ' ? name + 1 : name);
    alone.type("never read");
    LocalGenerator generator(service);
    ChatSession(generator, alone, {}).run();
    EXPECT_EQ(alone.prompts.size(), 1u) << name;
  }
}

TEST_F(Commands, what_takes_nothing_refuses_more) {
  EXPECT_THAT(after({"/clear now"}), HasSubstr("<error>/clear takes no argument"));
}

// --- /set ---

TEST_F(Commands, set_reaches_the_next_request) {
  service.scripts = {says("x")};
  after({"/set temperature 0.25", "/set top_k 7", "/set seed 5", "/set max_tokens 9",
         "/set stop The End", "/set thinking off", "Hello"});
  const CompletionRequest& request = service.requests.at(0);
  EXPECT_EQ(request.engine.sampling.temperature, 0.25f);
  EXPECT_EQ(request.engine.sampling.top_k, 7u);
  EXPECT_EQ(request.seed, 5u);
  EXPECT_EQ(request.max_tokens, 9u);
  EXPECT_THAT(request.output.stop, ElementsAre("The End"));
  EXPECT_EQ(service.prompts.at(0), "user: Hello|enable_thinking=False|");
}

TEST_F(Commands, set_refuses_what_the_api_refuses_in_its_words) {
  service.scripts = {says("x")};
  after({"/set temperature -1", "/set top_p 0", "/set temperature nan", "/set max_tokens 0",
         "Hello"});
  EXPECT_TRUE(console.shows("temperature is -1, expected a number from 0 to 100.\n"));
  EXPECT_TRUE(console.shows("top_p is 0, expected a number above 0, at most 1.\n"));
  EXPECT_TRUE(console.shows("temperature is nan, expected a number from 0 to 100.\n"));
  EXPECT_TRUE(console.shows("max_tokens is 0, expected at least 1.\n"));
  EXPECT_EQ(service.requests.at(0).engine.sampling.temperature, 1.0f);
  EXPECT_EQ(service.requests.at(0).max_tokens, std::nullopt);
}

TEST_F(Commands, set_refuses_what_is_none_of_its_kind) {
  after({"/set temperature hot", "/set top_k 1.5", "/set top_k -2", "/set stats maybe",
         "/set humour on"});
  EXPECT_TRUE(console.shows("temperature is 'hot', expected a number.\n"));
  EXPECT_TRUE(console.shows("top_k is '1.5', expected an integer.\n"));
  EXPECT_TRUE(console.shows("top_k is '-2', expected an integer.\n"));
  EXPECT_TRUE(console.shows("stats is 'maybe', expected on or off.\n"));
  EXPECT_TRUE(console.shows("there is not a setting 'humour'; expected one of temperature"));
}

TEST_F(Commands, names_with_dashes_and_mistyped_ones_are_recognised) {
  after({"/set max-tokens 7", "/set max_tokens 8", "/set max-token 9", "/hepl"});
  EXPECT_TRUE(console.shows("max_tokens is 7.\n"));
  EXPECT_TRUE(console.shows("max_tokens is 8.\n"));
  EXPECT_TRUE(console.shows("there is not a setting 'max-token'; did you mean max_tokens?"));
  EXPECT_TRUE(console.shows("'/hepl' is not a command; did you mean /help?"));
}

TEST_F(Commands, a_setting_without_a_value_is_shown) {
  options.settings.request.engine.sampling.temperature = 0.5f;
  service.scripts = {says("x")};
  after({"/set temperature", "/set seed", "Hello"});
  EXPECT_TRUE(console.shows("temperature is 0.5.\n"));
  EXPECT_TRUE(console.shows("seed is random.\n"));
  EXPECT_EQ(service.requests.at(0).engine.sampling.temperature, 0.5f);
}

TEST_F(Commands, words_of_other_programs_are_answered_with_ours) {
  after({"/set tempp 0", "/set system Be brief", "/retry", "/undo"});
  EXPECT_TRUE(console.shows("there is not a setting 'tempp'; did you mean temp?"));
  EXPECT_TRUE(console.shows("the system prompt is not a setting; /system TEXT sets it.\n"));
  EXPECT_TRUE(console.shows("'/retry' is not a command; /regen regenerates the last answer.\n"));
  EXPECT_TRUE(console.shows("'/undo' is not a command; a message cannot be undone"));
}

TEST_F(Commands, default_is_what_the_program_was_started_with) {
  options.settings.request.engine.sampling.temperature = 0.5f;
  options.settings.request.seed = 3;
  service.scripts = {says("x")};
  after({"/set temperature 1", "/set seed random", "/set temperature default", "/set seed default",
         "Hello"});
  EXPECT_EQ(service.requests.at(0).engine.sampling.temperature, 0.5f);
  EXPECT_EQ(service.requests.at(0).seed, 3u);
}

TEST_F(Commands, set_alone_lists_every_setting) {
  after({"/set"});
  for (const std::string& name : setting_names()) EXPECT_TRUE(console.shows("  " + name)) << name;
}

// --- /show, /system, /clear, /stats ---

TEST_F(Commands, show_tells_model_context_settings_and_system_prompt) {
  service.scripts = {says("Hi.")};
  after({"/system Be brief.", "Hello", "/show"});
  EXPECT_TRUE(console.shows("tiny (llama)"));
  EXPECT_TRUE(console.shows("45 of 4096 tokens, 2 messages"));  // a byte is a token here
  EXPECT_TRUE(console.shows("temperature"));
  EXPECT_TRUE(console.shows("Be brief."));
}

TEST_F(Commands, a_system_prompt_is_set_shown_and_taken_away) {
  service.scripts = {says("x")};
  after({"/system", "/system \"\"\"Be", "brief.\"\"\"", "/system", "/system none", "Hello"});
  EXPECT_TRUE(console.shows("There is no system prompt; /system TEXT sets one."));
  EXPECT_TRUE(console.shows("Be\nbrief.\n"));
  EXPECT_THAT(service.prompts, ElementsAre("user: Hello|"));
}

TEST_F(Commands, clear_forgets_all_but_the_system_prompt) {
  service.scripts = {says("one"), says("two")};
  after({"/system Be brief.", "Hello", "/clear", "And?"});
  EXPECT_EQ(service.prompts.back(), "system: Be brief.|user: And?|");
}

TEST_F(Commands, stats_sum_all_answers) {
  service.scripts = {{.chunks = {"x"}, .usage = used(10, 4)},
                     {.chunks = {"y"}, .usage = used(20, 1, 13)}};
  after({"/stats", "one", "two", "/stats"});
  EXPECT_TRUE(console.shows("No answer yet."));
  EXPECT_TRUE(console.shows("2 answers · 5 tokens · prompts 30 tokens, 13 of them cached\n"));
  EXPECT_TRUE(console.shows("last: TTFT 0.0 ms · 1 token · prompt 20 tokens, 13 of them cached\n"));
}

// --- /save, /load ---

TEST_F(Commands, a_saved_conversation_is_loaded_as_it_was) {
  service.scripts = {says("\"Hi\"\n\\ \u00e4"), says("x")};
  const std::string save = "/save " + path("chat.json"), load = "/load " + path("chat.json");
  after(
      {"/system Be brief.", "Hello", save.c_str(), "/clear", "/system none", load.c_str(), "And?"});
  EXPECT_TRUE(console.shows("Saved 2 messages to "));
  EXPECT_TRUE(console.shows("Loaded 2 messages from "));
  EXPECT_EQ(service.prompts.back(),
            "system: Be brief.|user: Hello|assistant: \"Hi\"\n\\ \u00e4|user: And?|");
}

TEST_F(Commands, save_replaces_a_conversation_and_nothing_else) {
  write("notes.txt", "precious");
  write("empty.json", "");
  service.scripts = {says("Hi.")};
  const std::string notes = "/save " + path("notes.txt"), empty = "/save " + path("empty.json"),
                    chat = "/save " + path("chat.json"), home = "/save " + folder.path();
  after({"Hello", notes.c_str(), empty.c_str(), home.c_str(), chat.c_str(), chat.c_str()});
  EXPECT_EQ(content("notes.txt"), "precious");
  EXPECT_TRUE(
      console.shows("notes.txt' exists and is not a saved conversation; it was left unchanged."));
  EXPECT_TRUE(console.shows("empty.json' exists and is not a saved conversation"));
  EXPECT_TRUE(console.shows("in the place of an older conversation"));
}

TEST_F(Commands, save_and_load_say_what_they_lack) {
  service.scripts = {says("Hi.")};
  after({"/save", "/load", "/save x.json", "/load /no/such/file", "Hello", "/save /no/such/file"});
  EXPECT_TRUE(console.shows("/save needs the name of a file."));
  EXPECT_TRUE(console.shows("/load needs the name of a file."));
  EXPECT_TRUE(console.shows("There is nothing to save yet."));
  EXPECT_TRUE(console.shows("cannot read '/no/such/file': No such file or directory."));
  EXPECT_TRUE(console.shows("cannot write '/no/such/file': No such file or directory."));
}

TEST_F(Commands, a_file_that_is_no_conversation_leaves_the_old_one) {
  write("bad.json", R"({"messages": [{"role": "tool", "content": "x"}]})");
  service.scripts = {says("Hi."), says("x")};
  const std::string load = "/load " + path("bad.json");
  after({"Hello", load.c_str(), "And?"});
  EXPECT_TRUE(console.shows("is not a saved conversation: message 1 has the role 'tool'"));
  EXPECT_EQ(service.prompts.back(), "user: Hello|assistant: Hi.|user: And?|");
}

TEST_F(Commands, a_conversation_that_ends_with_a_question_is_answered_by_regen) {
  write("open.json", R"({"messages": [{"role": "user", "content": "Why?"}]})");
  service.scripts = {says("Because.")};
  const std::string load = "/load " + path("open.json");
  after({load.c_str(), "/regen"});
  EXPECT_TRUE(console.shows("; /regen answers the last one"));
  EXPECT_THAT(service.prompts, ElementsAre("user: Why?|"));
}

TEST_F(Commands, a_tilde_is_the_users_home) {
  options.home = folder.path();
  service.scripts = {says("Hi.")};
  after({"Hello", "/save ~/chat.json"});
  EXPECT_THAT(content("chat.json"), HasSubstr("\"Hello\""));
}

TEST_F(Commands, a_count_of_minus_one_is_off_or_all_as_in_requests) {
  service.scripts = {says("x")};
  after({"/set top_k -1", "/set repeat_last_n 9", "/set repeat_last_n -1", "Hello"});
  ASSERT_EQ(service.requests.size(), 1u);
  EXPECT_EQ(service.requests.at(0).engine.sampling.top_k, 0u);
  EXPECT_EQ(service.requests.at(0).engine.sampling.penalty_last_n, UINT32_MAX);
  EXPECT_TRUE(console.shows("repeat_last_n is -1.\n"));
}

// --- completion ---

TEST(Completions, offer_commands_then_settings) {
  EXPECT_THAT(completions("/sa"), ElementsAre("/save "));
  EXPECT_THAT(completions("/s"),
              UnorderedElementsAre("/set ", "/show", "/system ", "/save ", "/stats"));
  EXPECT_THAT(completions("/set t"),
              UnorderedElementsAre("/set temperature ", "/set top_k ", "/set top_p ",
                                   "/set typical_p ", "/set top_n_sigma ", "/set thinking "));
  EXPECT_THAT(completions("/set "), Contains("/set stats "));
  EXPECT_THAT(completions("Hello"), IsEmpty());
  EXPECT_THAT(completions(""), Not(IsEmpty()));
}

}  // namespace
}  // namespace kvik
