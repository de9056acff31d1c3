#include <gmock/gmock.h>

#include <chrono>

#include "chat_fixture.h"

namespace kvik {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

class Chat : public ChatFixture {};

TEST_F(Chat, greets_with_the_model_its_context_and_the_way_to_help) {
  EXPECT_THAT(run(), HasSubstr("tiny, 4096 tokens of context. /help"));
}

TEST_F(Chat, every_prompt_holds_all_that_was_said) {
  console.type("Hello");
  console.type("And now?");
  service.scripts = {says("Good day."), says("Nothing.")};
  EXPECT_THAT(run(), HasSubstr("<plain>Good day.\n\nNothing.\n\n"));
  EXPECT_THAT(service.prompts,
              ElementsAre("user: Hello|", "user: Hello|assistant: Good day.|user: And now?|"));
}

TEST_F(Chat, the_next_prompt_is_asked_for_in_the_tokens_that_were_spoken) {
  for (const char* line : {"Hello", "And now?"}) console.type(line);
  service.scripts = {{.chunks = {"Good ", "day."}}, says("x")};
  run();
  ASSERT_EQ(service.history_tokens.size(), 2u);
  EXPECT_EQ(service.history_tokens[0].text, "");
  const std::string want = "user: Hello|Good day.";
  EXPECT_EQ(service.history_tokens[1].text, want);
  EXPECT_EQ(service.history_tokens[1].ids, std::vector<TokenId>(want.begin(), want.end()));
}

TEST_F(Chat, tokens_that_are_not_all_shown_are_not_spoken) {
  for (const char* line : {"one", "two", "three", "four"}) console.type(line);
  service.scripts = {
      says("a"), {.chunks = {"b"}, .hits_stop_string = true}, begins("c"), says("d")};
  run();
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(service.history_tokens[i].text, "user: one|a") << i;
}

TEST_F(Chat, a_system_prompt_comes_first) {
  options.system = "Be brief.";
  console.type("Hello");
  service.scripts = {says("Hi.")};
  run();
  EXPECT_THAT(service.prompts, ElementsAre("system: Be brief.|user: Hello|"));
}

TEST_F(Chat, lines_of_one_message_are_asked_for_with_another_prompt) {
  console.type("\"\"\"one");
  console.type("two\"\"\"");
  console.type("a\\");
  console.type("b");
  service.scripts = {says("x"), says("y")};
  run();
  EXPECT_EQ(service.prompts.back(), "user: one\ntwo|assistant: x|user: a\nb|");
  using enum Console::Prompt;
  EXPECT_THAT(console.prompts, ElementsAre(kFirst, kMore, kFirst, kMore, kFirst));
  EXPECT_THAT(console.remembered, ElementsAre("\"\"\"one\ntwo\"\"\"", "a\nb"));
}

TEST_F(Chat, blank_lines_ask_nothing) {
  for (const char* line : {"", "  ", "\t"}) console.type(line);
  run();
  EXPECT_TRUE(service.prompts.empty());
  EXPECT_TRUE(console.remembered.empty());
}

TEST_F(Chat, an_interrupt_at_an_empty_prompt_says_how_to_leave) {
  console.interrupt();
  EXPECT_THAT(run(), EndsWith("Ctrl-D or /bye leaves.\n"));
}

TEST_F(Chat, an_interrupt_gives_up_what_was_typed_and_no_more) {
  console.interrupt("half a thou");
  console.type("\"\"\"half a block");
  console.interrupt("more of it");
  console.type("whole");
  service.scripts = {says("yes")};
  EXPECT_THAT(run(), Not(HasSubstr("/bye leaves")));
  EXPECT_THAT(service.prompts, ElementsAre("user: whole|"));
}

TEST_F(Chat, an_interrupted_answer_ends_and_what_came_is_remembered) {
  console.type("Tell me all");
  console.type("Go on");
  service.scripts = {begins("First of"), says("all.")};
  EXPECT_THAT(run(), HasSubstr("<plain>First of\n<dim>(stopped)\n"));
  EXPECT_EQ(service.n_cancelled, 1);
  EXPECT_EQ(service.prompts.back(), "user: Tell me all|assistant: First of|user: Go on|");
}

TEST_F(Chat, an_interrupt_before_the_first_word_takes_the_message_back) {
  console.type("Never mind");
  console.type("Hello");
  service.scripts = {begins(""), says("Hi.")};
  EXPECT_THAT(run(), HasSubstr("your message was removed"));
  EXPECT_EQ(service.prompts.back(), "user: Hello|");
}

TEST_F(Chat, the_end_of_the_program_ends_an_answer_too) {
  console.patience = Console::Wake::kLeave;
  console.type("Tell me all");
  console.type("never read");
  service.scripts = {begins("First")};
  run();
  EXPECT_EQ(console.prompts.size(), 1u);
  EXPECT_EQ(service.n_cancelled, 1);
}

TEST_F(Chat, a_full_context_is_a_sentence_and_loses_nothing) {
  service.model.n_ctx_max = 40;
  console.type("Hello");
  console.type(std::string(60, 'x'));
  console.type("Short");
  service.scripts = {says("Hi."), says("Yes.")};
  EXPECT_THAT(run(), HasSubstr("<error>The conversation is full"));
  EXPECT_TRUE(console.shows("/clear starts a new conversation"));
  EXPECT_EQ(service.prompts.back(), "user: Hello|assistant: Hi.|user: Short|");
}

TEST_F(Chat, a_first_message_longer_than_the_context_is_what_is_too_long) {
  service.model.n_ctx_max = 40;
  console.type(std::string(60, 'x'));
  EXPECT_THAT(run(),
              AllOf(HasSubstr("<error>Your message is too long: "), HasSubstr(" It was removed."),
                    Not(HasSubstr("..")), Not(HasSubstr("conversation is full"))));
}

TEST_F(Chat, a_message_that_the_template_refuses_is_taken_back) {
  service.template_error = Error{ErrorCode::kInvalidArgument, "roles must alternate", "messages"};
  console.type("Hello");
  EXPECT_THAT(run(), HasSubstr("<error>roles must alternate.\n"));
  EXPECT_TRUE(service.prompts.empty());
}

TEST_F(Chat, a_model_that_fails_is_said_to) {
  console.type("Hello");
  service.scripts = {{.chunks = {"H"}, .finish = FinishReason::kFailed}};
  EXPECT_THAT(run(), HasSubstr("<error>The model's logits are not finite numbers"));
}

TEST_F(Chat, an_answer_without_memory_is_reported_and_the_chat_goes_on) {
  for (const char* line : {"Hello", "Again"}) console.type(line);
  service.scripts = {{.chunks = {"H"}, .exhausts_memory = true}, says("Hi.")};
  EXPECT_THAT(run(), HasSubstr("<error>There was no memory for this answer"));
  EXPECT_EQ(service.prompts.back(), "user: Again|");
}

TEST_F(Chat, thoughts_are_dimmed_and_no_part_of_the_conversation) {
  for (const char* line : {"Hello", "Why?", "Sure?"}) console.type(line);
  service.scripts = {says("Ask."),
                     {.chunks = {"<thi", "nk>\nLet me ", "see.\n</th", "ink>\n\n", "Because."}},
                     says("Yes.")};
  EXPECT_THAT(run(), HasSubstr("<plain>Ask.\n\n<dim>Let me see.\n\n<plain>Because.\n"));
  EXPECT_THAT(service.prompts.back(), EndsWith("user: Why?|assistant: Because.|user: Sure?|"));
}

TEST_F(Chat, a_thought_that_the_template_opened_is_one_too) {
  service.opens_reasoning = true;
  console.type("Why?");
  service.scripts = {says("Hm.</think>Because.")};
  EXPECT_THAT(run(), HasSubstr("Hm.\n\n<plain>Because.\n"));
}

TEST_F(Chat, statistics_follow_each_answer_where_they_are_asked_for) {
  using std::chrono::milliseconds;
  Usage usage = used(42, 11, 30);
  usage.ttft = milliseconds(12);
  usage.decode_time = milliseconds(50);
  console.type("one");
  console.type("/set stats");
  console.type("two");
  for (int i = 0; i < 2; ++i) service.scripts.push_back({.chunks = {"x"}, .usage = usage});
  const std::string& screen = run();
  const std::string line =
      "TTFT 12.0 ms · 11 tokens, 200.0 tok/s · prompt 42 tokens, 30 of them cached\n";
  EXPECT_EQ(screen.find(line), screen.rfind(line));
  EXPECT_THAT(screen, EndsWith("<dim>" + line + "<plain>\n"));
}

TEST_F(Chat, an_answer_cut_short_says_why) {
  console.type("one");
  console.type("two");
  service.scripts = {{.chunks = {"x"}, .finish = FinishReason::kLength, .usage = used(10, 5)},
                     {.chunks = {"x"}, .finish = FinishReason::kLength, .usage = used(4000, 96)}};
  run();
  EXPECT_TRUE(console.shows("(cut at max_tokens)"));
  EXPECT_TRUE(console.shows("(cut: the context is full; /clear starts a new conversation)"));
}

TEST_F(Chat, blanks_around_an_answer_are_not_shown_but_kept) {
  console.type("one");
  console.type("two");
  service.scripts = {{.chunks = {"\n\n ", " a", "\n", "\nb", " \n\n"}}, says("c")};
  EXPECT_THAT(run(), HasSubstr("<plain>a\n\nb\n\nc\n"));
  EXPECT_THAT(service.prompts.back(), HasSubstr("assistant: \n\n  a\n\nb \n\n|"));
}

TEST_F(Chat, an_empty_answer_is_said_to_be_one) {
  console.type("one");
  service.scripts = {says("")};
  EXPECT_THAT(run(), HasSubstr("(an empty answer)"));
}

// --- /regen ---

TEST_F(Chat, regen_answers_the_last_message_anew) {
  console.type("Hello");
  console.type("/regen");
  console.type("And?");
  service.scripts = {says("one"), says("two"), says("three")};
  run();
  EXPECT_THAT(service.prompts, ElementsAre("user: Hello|", "user: Hello|",
                                           "user: Hello|assistant: two|user: And?|"));
}

TEST_F(Chat, regen_moves_a_fixed_seed_on_and_the_next_message_goes_back_to_it) {
  options.settings.request.seed = 7;
  for (const char* line : {"Hello", "/regen", "/regen", "And?"}) console.type(line);
  service.scripts.assign(4, says("x"));
  run();
  std::vector<uint64_t> seeds;
  for (const auto& request : service.requests) seeds.push_back(request.seed.value_or(0));
  EXPECT_THAT(seeds, ElementsAre(7, 8, 9, 7));
}

TEST_F(Chat, a_regen_that_is_stopped_at_once_keeps_the_old_answer) {
  console.type("Hello");
  console.type("/regen");
  console.type("And?");
  service.scripts = {says("one"), begins(""), says("three")};
  run();
  EXPECT_EQ(service.prompts.back(), "user: Hello|assistant: one|user: And?|");
}

TEST_F(Chat, regen_without_a_message_is_refused) {
  console.type("/regen");
  EXPECT_THAT(run(), HasSubstr("<error>There is no answer to regenerate.\n"));
}

}  // namespace
}  // namespace kvik
