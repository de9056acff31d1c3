// A chat with a generator that is not in this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/chat_session.h"
#include "fake_console.h"

namespace kvik {
namespace {

using testing::HasSubstr;
using testing::Not;

// Answers with texts that a test wrote down. An answer with an error breaks off after its text.
class FarGenerator final : public Generator {
 public:
  struct Script {
    std::string text;
    std::optional<Error> error = {};
  };
  std::deque<Script> scripts;
  std::vector<ChatRequest> asked;

  const ModelCard& card() const override { return card_; }
  std::string place() const override { return "http://far:1"; }
  Result<Running> answer(const ChatRequest& chat, CompletionRequest,
                         std::shared_ptr<CompletionSink> sink) override {
    asked.push_back(chat);
    const Script script = std::move(scripts.front());
    scripts.pop_front();
    failure_ = script.error;
    CompletionChunk chunk;
    if (!script.text.empty()) {
      chunk.parts.push_back({.kind = AnswerPart::Kind::kText, .text = script.text});
    }
    if (!script.error) chunk.finish = FinishReason::kStop;
    sink->on_chunk(std::move(chunk));
    sink->on_done({});
    return Running{.completion = std::make_unique<Nothing>()};
  }
  Result<std::unique_ptr<Completion>> complete(CompletionRequest,
                                               std::shared_ptr<CompletionSink>) override {
    return fail(ErrorCode::kUnsupported, "a chat continues no text");
  }
  std::optional<Error> failure() const override { return failure_; }
  Result<size_t> count_tokens(const ChatRequest&) const override { return 42; }

 private:
  class Nothing final : public Completion {
    uint32_t prompt_tokens() const override { return 0; }
  };

  ModelCard card_{.id = "big", .architecture = "", .n_ctx_max = 8192};
  std::optional<Error> failure_;
};

class RemoteChat : public testing::Test {
 protected:
  const std::string& run() {
    ChatSession(generator, console, {}).run();
    return console.screen;
  }

  FarGenerator generator;
  FakeConsole console;
};

constexpr const char* kBroke = "the connection to http://far:1 broke: it was closed";

TEST_F(RemoteChat, greeting_names_the_server) {
  EXPECT_THAT(run(), HasSubstr("big of http://far:1, 8192 tokens of context. /help"));
}

TEST_F(RemoteChat, answer_without_tokens_is_kept_as_text) {
  for (const char* line : {"Hello", "And now?", "/show"}) console.type(line);
  generator.scripts = {{"Good day."}, {"Nothing."}};
  EXPECT_THAT(run(), HasSubstr("42 of 8192 tokens, 4 messages"));
  ASSERT_EQ(generator.asked.size(), 2u);
  EXPECT_EQ(text_of(generator.asked[1].messages[1]), "Good day.");
  EXPECT_TRUE(generator.asked[1].history_tokens.ids.empty());
}

TEST_F(RemoteChat, answer_that_broke_off_is_kept_with_the_reason) {
  for (const char* line : {"Hello", "And now?"}) console.type(line);
  generator.scripts = {{"Good", Error{ErrorCode::kIo, kBroke}}, {"Nothing."}};
  const std::string& screen = run();
  EXPECT_THAT(screen, HasSubstr(std::string("<error>") + kBroke));
  EXPECT_THAT(screen, HasSubstr("(stopped)"));
  EXPECT_EQ(text_of(generator.asked[1].messages[1]), "Good");
}

TEST_F(RemoteChat, message_without_an_answer_is_taken_back) {
  for (const char* line : {"Hello", "And now?"}) console.type(line);
  generator.scripts = {{"", Error{ErrorCode::kIo, kBroke}}, {"Nothing."}};
  const std::string& screen = run();
  EXPECT_THAT(screen, HasSubstr(kBroke));
  EXPECT_THAT(screen, HasSubstr("your message was removed"));
  EXPECT_EQ(generator.asked[1].messages.size(), 1u);
}

TEST_F(RemoteChat, error_of_an_earlier_answer_is_not_shown_again) {
  for (const char* line : {"Hello", "And now?"}) console.type(line);
  generator.scripts = {{"Good."}, {"Nothing."}};
  EXPECT_THAT(run(), Not(HasSubstr("broke")));
}

}  // namespace
}  // namespace kvik
