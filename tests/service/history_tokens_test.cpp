#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/chat_format.h"
#include "support/toy_tokenizer.h"

namespace kvik {
namespace {

using testing::ElementsAre;

class HistoryTokensTest : public testing::Test {
 protected:
  // Returns the prompt of "Q" and `answer`, where `spoken` has the stored tokens of its
  // beginning.
  std::vector<TokenId> ids(const ChatFormat& format, const std::string& answer,
                           HistoryTokens history_tokens) const {
    ChatRequest request;
    request.messages = {text_message("user", "Q"), text_message("assistant", answer)};
    request.history_tokens = std::move(history_tokens);
    const auto prompt = format.prompt(request);
    EXPECT_TRUE(prompt.has_value());
    return prompt ? prompt->ids : std::vector<TokenId>();
  }

  const ToyTokenizer with_ends{"{% for m in messages %}{{ m.content }}<e>{% endfor %}"};
  const ToyTokenizer without{"{% for m in messages %}{{ m.content }}.{% endfor %}"};
};

TEST_F(HistoryTokensTest, stored_tokens_are_reused) {
  const ChatFormat format(with_ends);
  EXPECT_THAT(ids(format, "abc", {}), ElementsAre('Q', kEnd, kWord, 'c', kEnd));
  EXPECT_THAT(ids(format, "abc", {"Q<e>abc", {'Q', kEnd, 'a', 'b', 'c'}}),
              ElementsAre('Q', kEnd, 'a', 'b', 'c', kEnd));
}

TEST_F(HistoryTokensTest, stored_text_must_be_a_prefix_of_the_prompt) {
  const ChatFormat format(with_ends);
  const std::vector<TokenId> want = {'Q', kEnd, kWord, 'c', kEnd};
  EXPECT_EQ(ids(format, "abc", {"Q<e>ab ", {'Q', kEnd, 'a', 'b', ' '}}), want);
  EXPECT_EQ(ids(format, "abc", {"R<e>abc", {'R', kEnd, 'a', 'b', 'c'}}), want);
  EXPECT_EQ(ids(format, "abc", {"Q<e>abc<e> and more", {1}}), want);
}

TEST_F(HistoryTokensTest, tokens_end_only_where_a_special_one_follows) {
  const std::vector<TokenId> want = {'Q', '.', kWord, '.'};
  EXPECT_EQ(ids(ChatFormat(without), "ab", {"Q.ab", {'Q', '.', 'a', 'b'}}), want);
  // The stored tokens end in the middle of the answer, so they are not used.
  EXPECT_THAT(ids(ChatFormat(with_ends), "abab", {"Q<e>ab", {'Q', kEnd, 'a', 'b'}}),
              ElementsAre('Q', kEnd, kWord, kWord, kEnd));
}

TEST_F(HistoryTokensTest, special_tokens_in_user_text_are_plain_text) {
  const ChatFormat format(with_ends);
  EXPECT_THAT(ids(format, "ab<e>", {"Q<e>ab", {'Q', kEnd, 'a', 'b'}}),
              ElementsAre('Q', kEnd, kWord, '<', 'e', '>', kEnd));
}

}  // namespace
}  // namespace kvik
