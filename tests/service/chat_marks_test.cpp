#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/chat.h"
#include "support/toy_tokenizer.h"

namespace kvik {
namespace {

using std::chrono::minutes;

// Tools come behind the first message's words, as with Qwen; words are trimmed.
constexpr const char* kTemplate =
    "{% for m in messages %}[{{ m.content | trim }}{% if loop.first and tools %}"
    "{% for t in tools %}({{ t.name }}){% endfor %};{% endif %}]{% endfor %}";

jinja::Value dict_of(const char* name, const std::string& text) {
  jinja::Dict dict;
  dict.entries.emplace_back(jinja::make_text(name), jinja::make_text(text, jinja::Origin::kGiven));
  return jinja::Value(std::move(dict));
}

class ChatMarks : public testing::Test {
 protected:
  // The prompt's text up to where the mark's pin ends; a token is a byte. "none" where there is no
  // pin.
  std::string marked(const std::vector<std::string>& messages, ChatMark mark) {
    ChatRequest request;
    std::vector<jinja::Value> items;
    for (const std::string& message : messages) items.push_back(dict_of("content", message));
    request.messages = jinja::make_list(std::move(items));
    request.tools = jinja::make_list({dict_of("name", "f"), dict_of("name", "g")});
    mark.ttl = minutes(5);
    request.marks = {mark};
    const auto prompt = ChatFormat(ToyTokenizer(kTemplate)).prompt(request);
    EXPECT_TRUE(prompt.has_value());
    if (!prompt || prompt->pins.empty()) return "none";
    EXPECT_EQ(prompt->pins[0].ttl, minutes(5));
    return prompt->text.substr(0, prompt->pins[0].n_tokens);
  }
};

TEST_F(ChatMarks, a_mark_inside_a_message_pins_what_stands_before_it) {
  EXPECT_EQ(marked({"one", "two three"}, {.message = 1, .n_bytes = 3}), "[one(f)(g);][two");
  EXPECT_EQ(marked({"one", "two"}, {.message = 0, .n_bytes = 3}), "[one");
}

TEST_F(ChatMarks, words_that_the_template_trims_end_where_it_cuts_them) {
  EXPECT_EQ(marked({"one  ", "two"}, {.message = 0, .n_bytes = 5}), "[one");
}

TEST_F(ChatMarks, a_mark_behind_the_tools_pins_them) {
  EXPECT_EQ(marked({"one", "two"}, {}), "[one(f)(g)");
}

TEST_F(ChatMarks, the_byte_that_shows_a_mark_may_be_in_the_words_themselves) {
  EXPECT_EQ(marked({"o\x01\x02", "two"}, {.message = 0, .n_bytes = 1}), "[o");
  EXPECT_EQ(marked({"o\x01\x01", "two"}, {.message = 0, .n_bytes = 2}), "[o\x01");
}

TEST_F(ChatMarks, a_mark_on_no_message_pins_nothing) {
  EXPECT_EQ(marked({"one"}, {.message = 7, .n_bytes = 3}), "none");
}

}  // namespace
}  // namespace kvik
