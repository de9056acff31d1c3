#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/chat_format.h"
#include "support/toy_tokenizer.h"

namespace kvik {
namespace {

using std::chrono::minutes;

// Tools follow the text of the first message, as in Qwen's templates; texts are trimmed.
constexpr const char* kTemplate =
    "{% for m in messages %}[{{ m.content | trim }}{% if loop.first and tools %}"
    "{% for t in tools %}({{ t.function.name }}){% endfor %};{% endif %}]{% endfor %}";

Json tool(const char* name) {
  return {Json::Fields{{"function", {Json::Fields{{"name", {name}}}}}}};
}

class ChatMarks : public testing::Test {
 protected:
  // Returns the prompt's text up to the end of the pin of its only mark; "none" if there is no pin.
  // A token is a byte.
  std::string marked(std::vector<Message> messages, std::optional<Duration> tools_pin_ttl = {}) {
    ChatRequest request;
    request.messages = std::move(messages);
    request.tools = {tool("f"), tool("g")};
    request.tools_pin_ttl = tools_pin_ttl;
    const auto prompt = ChatFormat(ToyTokenizer(kTemplate)).prompt(request);
    EXPECT_TRUE(prompt.has_value());
    if (!prompt || prompt->pins.empty()) return "none";
    EXPECT_EQ(prompt->pins[0].ttl, minutes(5));
    return prompt->text.substr(0, prompt->pins[0].n_tokens);
  }

  static Message plain(std::string text) { return text_message("user", std::move(text)); }
  // Returns a message with a mark between the two texts.
  static Message marked_after(std::string first, std::string second = "") {
    Message message{.role = "user", .parts = {TextPart{std::move(first), minutes(5)}}};
    if (!second.empty()) message.parts.push_back(TextPart{std::move(second)});
    return message;
  }
};

TEST_F(ChatMarks, a_mark_inside_a_message_pins_the_text_before_it) {
  EXPECT_EQ(marked({plain("one"), marked_after("two", "three")}), "[one(f)(g);][two");
  EXPECT_EQ(marked({marked_after("one"), plain("two")}), "[one");
}

TEST_F(ChatMarks, words_that_the_template_trims_end_where_it_cuts_them) {
  EXPECT_EQ(marked({marked_after("one  "), plain("two")}), "[one");
}

TEST_F(ChatMarks, a_mark_after_the_tools_pins_them) {
  EXPECT_EQ(marked({plain("one"), plain("two")}, minutes(5)), "[one(f)(g)");
}

TEST_F(ChatMarks, the_byte_that_shows_a_mark_may_be_in_the_words_themselves) {
  EXPECT_EQ(marked({marked_after("o", "\x01\x02"), plain("two")}), "[o");
  EXPECT_EQ(marked({marked_after("o\x01", "\x01"), plain("two")}), "[o\x01");
}

TEST_F(ChatMarks, a_conversation_without_marks_pins_nothing) {
  EXPECT_EQ(marked({plain("one")}), "none");
}

TEST_F(ChatMarks, a_continued_message_keeps_its_marks) {
  ChatRequest request;
  request.messages = {marked_after("one", "two")};
  request.add_generation_prompt = false;
  request.continue_final_message = true;
  const auto prompt = ChatFormat(ToyTokenizer(kTemplate)).prompt(request);
  ASSERT_TRUE(prompt.has_value());
  EXPECT_EQ(prompt->text, "[one\ntwo");
  ASSERT_EQ(prompt->pins.size(), 1u);
  EXPECT_EQ(prompt->text.substr(0, prompt->pins[0].n_tokens), "[one");
}

}  // namespace
}  // namespace kvik
