#include "service/history/answer_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "support/temporary_folder.h"

namespace kvik {
namespace {

class AnswerFileTest : public testing::Test {
 protected:
  static ConversationKey key_of(const std::string& text) {
    return with_message(conversation_key({.client = "owner", .scope = ""}),
                        text_message("user", text));
  }
  static std::shared_ptr<AnswerMemory> memory(uint64_t n_bytes = 1 << 20) {
    return std::make_shared<AnswerMemory>(n_bytes);
  }
  // Writes three answers of two clients.
  void write() {
    const auto answers = memory();
    const AnswerFile file(path, {"model", 10}, answers);
    answers->remember("a", key_of("1"), {.ids = {1, 2, 3}, .opening = "<think>", .reasoning = "x"});
    answers->remember("a", key_of("2"), {.ids = {4}, .opening = "", .reasoning = ""});
    answers->remember("b", key_of("3"), {.ids = {}, .opening = "", .reasoning = "\n\0y"});
  }
  size_t n_read(const std::string& model = "model") const {
    const auto answers = memory();
    const AnswerFile file(path, {model, 10}, answers);
    return answers->all().size();
  }
  std::string bytes() const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void set_bytes(std::string_view bytes) const { std::ofstream(path, std::ios::binary) << bytes; }

  const TemporaryFolder folder;
  const std::string path = folder.path() + "/answers";
};

TEST_F(AnswerFileTest, answers_are_read_as_they_were_written) {
  write();
  const auto answers = memory();
  const AnswerFile file(path, {"model", 10}, answers);
  EXPECT_EQ(answers->all().size(), 3);
  const auto first = answers->find(key_of("1"));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->ids, (std::vector<TokenId>{1, 2, 3}));
  EXPECT_EQ(first->opening, "<think>");
  EXPECT_EQ(first->reasoning, "x");
  EXPECT_EQ(answers->all().back().client, "b");
}

TEST_F(AnswerFileTest, the_order_of_use_is_kept) {
  write();
  const auto answers = memory(2400);  // for four of them
  const AnswerFile file(path, {"model", 10}, answers);
  for (const char* const text : {"4", "5"})
    answers->remember("a", key_of(text), {.ids = {1}, .opening = "", .reasoning = ""});
  EXPECT_FALSE(answers->find(key_of("1"))) << "it was used before the second one";
  EXPECT_TRUE(answers->find(key_of("2")));
}

TEST_F(AnswerFileTest, changes_are_written_while_it_is_open) {
  const auto answers = memory();
  const AnswerFile file(path, {"model", 10}, answers, std::chrono::milliseconds(1));
  answers->remember("a", key_of("1"), {.ids = {1}, .opening = "", .reasoning = ""});
  while (!std::filesystem::exists(path)) std::this_thread::yield();
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(AnswerFileTest, is_not_written_without_a_change) {
  { const AnswerFile file(path, {"model", 10}, memory()); }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(AnswerFileTest, that_of_another_model_is_ignored_and_replaced) {
  write();
  EXPECT_EQ(n_read("other"), 0);
  EXPECT_EQ(n_read(), 3) << "nothing was remembered, so it is not replaced yet";
  {
    const auto answers = memory();
    const AnswerFile file(path, {"other", 10}, answers);
    answers->remember("a", key_of("1"), {.ids = {1}, .opening = "", .reasoning = ""});
  }
  EXPECT_EQ(n_read(), 0);
  EXPECT_EQ(n_read("other"), 1);
}

TEST_F(AnswerFileTest, damaged_files_are_ignored) {
  write();
  const std::string whole = bytes();
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 4);
    set_bytes(changed);
    EXPECT_EQ(n_read(), 0) << at;
    set_bytes(whole.substr(0, at));
    EXPECT_EQ(n_read(), 0) << at;
  }
  set_bytes(whole);
  EXPECT_EQ(n_read(), 3);
}

TEST_F(AnswerFileTest, tokens_beyond_the_vocabulary_are_refused) {
  write();
  const auto answers = memory();
  const AnswerFile file(path, {"model", 4}, answers);
  EXPECT_FALSE(answers->find(key_of("2"))) << "it has token 4";
}

TEST_F(AnswerFileTest, a_folder_that_is_missing_costs_only_the_file) {
  const auto answers = memory();
  const AnswerFile file(folder.path() + "/none/answers", {"model", 10}, answers);
  answers->remember("a", key_of("1"), {.ids = {1}, .opening = "", .reasoning = ""});
  EXPECT_TRUE(answers->find(key_of("1")));
}

}  // namespace
}  // namespace kvik
