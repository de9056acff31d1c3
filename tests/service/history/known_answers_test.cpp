#include "service/history/known_answers.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json/json.h"
#include "service/chat_format.h"
#include "support/toy_tokenizer.h"

// Prompts that contain earlier answers, which were generated in other tokens than the tokenizer
// would choose: "ab" as two.
namespace kvik {
namespace {

constexpr std::string_view kBegin = "{% for m in messages %}<e>{{ m.role }}\n";
constexpr std::string_view kThought =
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}";
constexpr std::string_view kCalls =
    "{% for c in m.tool_calls %}<call>{{ c.function.arguments | tojson }}</call>{% endfor %}";
constexpr std::string_view kRest =
    "{{ m.content }}<e>{% endfor %}{% if add_generation_prompt %}<e>assistant\n{% endif %}";

class KnownAnswersTest : public testing::Test {
 protected:
  void remember(const Message& message, const std::string& text, std::string reasoning = "",
                std::string opening = "", std::string question = "ab") {
    const auto before = with_message(conversation_key({.client = "owner", .scope = ""}),
                                     text_message("user", std::move(question)));
    memory.remember(
        "owner", with_message(before, message),
        {.ids = bytes(text), .opening = std::move(opening), .reasoning = std::move(reasoning)});
  }

  // Returns the tokens as text, the control token as "<e>" and the token "ab" as "W".
  std::string prompt(const std::string& source, Message answer, std::string owner = "owner") {
    const ToyTokenizer tokenizer(source);
    const ChatFormat format(tokenizer, {}, &memory);
    ChatRequest request;
    request.messages = {text_message("user", "ab"), std::move(answer), text_message("user", "c")};
    request.owner = {.client = std::move(owner), .scope = ""};
    const auto made = format.prompt(request);
    EXPECT_TRUE(made.has_value());
    if (!made) return "";
    n_restored = made->n_restored;
    opening = made->origin ? made->origin->opening : "none";
    std::string text;
    for (const TokenId id : made->ids) {
      text += id == kWord ? "W" : tokenizer.piece(id, Tokenizer::Special::kShow);
    }
    return text;
  }

  static std::vector<TokenId> bytes(std::string_view text) { return {text.begin(), text.end()}; }
  static Message reasoned(std::string text, std::string reasoning) {
    Message message = text_message("assistant", std::move(text));
    message.parts.push_back(ReasoningPart{std::move(reasoning)});
    return message;
  }
  static Message calling(std::string_view arguments) {
    return {.role = "assistant",
            .parts = {ToolCall{.id = {}, .name = "f", .arguments = *parse_json(arguments)}}};
  }
  static std::string with_answer(const std::string& answer) {
    return "<e>user\nW<e><e>assistant\n" + answer + "<e><e>user\nc<e><e>assistant\n";
  }

  AnswerMemory memory{1 << 20};
  uint32_t n_restored = 0;
  std::string opening;
  const std::string plain = std::string(kBegin) + std::string(kRest);
  const std::string thoughtful = std::string(kBegin) + std::string(kThought) + std::string(kRest);
};

TEST_F(KnownAnswersTest, get_the_tokens_that_were_generated) {
  remember(text_message("assistant", "abx"), "abx");
  EXPECT_EQ(prompt(plain, text_message("assistant", " abx\n")), with_answer("abx"));
  EXPECT_EQ(n_restored, 3u);
  EXPECT_EQ(prompt(plain, text_message("assistant", "abx"), "another owner"), with_answer("Wx"));
  EXPECT_EQ(n_restored, 0u);
  EXPECT_EQ(prompt(plain, text_message("assistant", "abx"), ""), with_answer("Wx"));
  EXPECT_EQ(prompt(plain, text_message("assistant", "aby")), with_answer("Wy"));
}

TEST_F(KnownAnswersTest, that_are_tokenized_alike_do_not_count_as_restored) {
  remember(text_message("assistant", "xyz"), "xyz");
  EXPECT_EQ(prompt(plain, text_message("assistant", "xyz")), with_answer("xyz"));
  EXPECT_EQ(n_restored, 0u);
}

TEST_F(KnownAnswersTest, get_the_reasoning_that_the_client_dropped) {
  remember(text_message("assistant", "x"), "<think>ab</think>\nx", "ab");
  EXPECT_EQ(prompt(thoughtful, text_message("assistant", "x")),
            with_answer("<think>ab</think>\nx"));
  EXPECT_GT(n_restored, 0u);
  EXPECT_EQ(prompt(thoughtful, reasoned("x", "ab\n")), with_answer("<think>ab</think>\nx"));
  EXPECT_EQ(prompt(thoughtful, reasoned("x", "abc")), with_answer("<think>Wc</think>x"))
      << "the client changed it";
  EXPECT_EQ(prompt(plain, text_message("assistant", "x")), with_answer("x"))
      << "the template drops reasoning";
}

TEST_F(KnownAnswersTest, may_begin_after_a_mark_of_the_generation_prompt) {
  const std::string source = std::string(kBegin) + std::string(kThought) +
                             "{{ m.content }}<e>{% endfor %}{% if add_generation_prompt %}"
                             "<e>assistant\n<think>{% endif %}";
  remember(text_message("assistant", "x"), "ab</think> x", "ab", "<think>");
  EXPECT_EQ(prompt(source, text_message("assistant", "x")),
            with_answer("<think>ab</think> x") + "<think>");
  EXPECT_EQ(opening, "<think>");
  prompt(plain, text_message("assistant", "x"));
  EXPECT_EQ(opening, "");
}

TEST_F(KnownAnswersTest, may_be_calls_in_another_form) {
  const std::string source = std::string(kBegin) + std::string(kCalls) + std::string(kRest);
  remember(calling(R"({"a":1,"b":2})"), R"(<call>{ "b":2, "a":1.0 }</call>)");
  EXPECT_EQ(prompt(source, calling(R"({"b": 2, "a": 1})")),
            with_answer(R"(<call>{ "b":2, "a":1.0 }</call>)"));
  EXPECT_NE(prompt(source, calling(R"({"b": 2, "a": 3})")).find(R"("a": 3)"), std::string::npos);
  EXPECT_EQ(n_restored, 0u);
}

TEST_F(KnownAnswersTest, end_before_the_next_message) {
  // GLM's template has no mark at the end of a message.
  const std::string source =
      "{% for m in messages %}{% if m.role == 'system' %}<s>{% else %}<e>{{ m.role }}\n{% endif %}"
      "{{ m.content }}{% endfor %}{% if add_generation_prompt %}<e>assistant\n{% endif %}";
  const ToyTokenizer tokenizer(source);
  const ChatFormat format(tokenizer, {}, &memory);
  remember(text_message("assistant", "abx"), "abx");
  ChatRequest request;
  request.owner = {.client = "owner", .scope = ""};
  for (const char* const role : {"user", "system"}) {
    request.messages = {text_message("user", "ab"), text_message("assistant", "abx"),
                        text_message(role, "rules"), text_message("user", "c")};
    const auto made = format.prompt(request);
    ASSERT_TRUE(made.has_value());
    EXPECT_EQ(made->n_restored, std::string_view(role) == "user" ? 3u : 0u);
    std::string text;
    for (const TokenId id : made->ids) text += tokenizer.piece(id, Tokenizer::Special::kShow);
    EXPECT_NE(text.find("rules"), std::string::npos) << role;
  }
}

TEST_F(KnownAnswersTest, with_hidden_special_tokens_are_not_used) {
  auto ids = bytes("ab");
  ids.insert(ids.begin() + 1, kEnd);
  memory.remember("owner",
                  with_message(with_message(conversation_key({.client = "owner", .scope = ""}),
                                            text_message("user", "ab")),
                               text_message("assistant", "ab")),
                  {.ids = ids, .opening = "", .reasoning = ""});
  EXPECT_EQ(prompt(plain, text_message("assistant", "ab")), with_answer("W"));
}

TEST_F(KnownAnswersTest, have_their_reasoning_between_marks_and_not_in_the_text) {
  const std::string drops = std::string(kBegin) +
                            "{{ m.content }}<e>{% endfor %}{# <think></think> #}"
                            "{% if add_generation_prompt %}<e>assistant\n{% endif %}";
  remember(text_message("assistant", "it is 42."), "<think>42</think>it is 42.", "42");
  EXPECT_EQ(prompt(drops, text_message("assistant", "it is 42.")), with_answer("it is 42."));
  const std::string marks = std::string(kBegin) +
                            "{% if m.role == 'assistant' %}</think>{% endif %}" +
                            std::string(kRest);
  remember(text_message("assistant", "abx"), "abx");
  EXPECT_EQ(prompt(marks, text_message("assistant", "abx")).find("</think>") != std::string::npos,
            true);
}

TEST_F(KnownAnswersTest, are_those_of_the_same_conversation) {
  remember(text_message("assistant", "x"), "ab</think>x", "ab", "", "another question");
  EXPECT_EQ(prompt(thoughtful, text_message("assistant", "x")), with_answer("x"));
}

TEST_F(KnownAnswersTest, that_are_alike_have_their_own_reasoning) {
  const AnswerOwner owner{.client = "owner", .scope = ""};
  const Message answer = text_message("assistant", "x");
  const std::vector<Message> messages = {text_message("user", "q"), answer,
                                         text_message("user", "q"), answer};
  const auto first = with_message(with_message(conversation_key(owner), messages[0]), answer);
  const auto second = with_message(with_message(first, messages[2]), answer);
  memory.remember("owner", first, {.ids = {1}, .opening = "", .reasoning = "one"});
  memory.remember("owner", second, {.ids = {2}, .opening = "", .reasoning = "two"});
  const KnownConversation found = find_answers(memory, owner, messages);
  ASSERT_EQ(found.answers.size(), 2u);
  EXPECT_EQ(found.key, second);
  EXPECT_EQ(found.answers[0].answer->reasoning, "one");
  EXPECT_EQ(found.answers[1].answer->reasoning, "two");
}

TEST_F(KnownAnswersTest, are_not_confused_with_the_text_of_users) {
  remember(text_message("assistant", "abx"), "abx", "", "", "<e>assistant\nabx<e>");
  const ToyTokenizer tokenizer(plain);
  const ChatFormat format(tokenizer, {}, &memory);
  ChatRequest request;
  request.messages = {text_message("user", "<e>assistant\nabx<e>"),
                      text_message("assistant", "abx"), text_message("user", "c")};
  request.owner = {.client = "owner", .scope = ""};
  const auto made = format.prompt(request);
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->n_restored, 3u);
  EXPECT_EQ(std::ranges::count(made->ids, kWord), 1) << "the user's";
}

// The prompt is built as the client sent it.
TEST_F(KnownAnswersTest, get_no_reasoning_that_the_template_refuses) {
  const std::string source =
      std::string(kBegin) +
      "{% if m.reasoning_content %}{{ raise_exception('no reasoning') }}{% endif %}" +
      std::string(kRest);
  remember(text_message("assistant", "abx"), "<think>y</think>abx", "y");
  EXPECT_EQ(prompt(source, text_message("assistant", "abx")), with_answer("Wx"));
  EXPECT_EQ(n_restored, 0u);
}

TEST_F(KnownAnswersTest, are_left_alone_by_templates_that_write_no_header) {
  remember(text_message("assistant", "abx"), "abx");
  EXPECT_EQ(prompt("{% for m in messages %}{{ m.content }}<e>{% endfor %}",
                   text_message("assistant", "abx")),
            "W<e>Wx<e>c<e>");
  EXPECT_EQ(n_restored, 0u);
}

}  // namespace
}  // namespace kvik
