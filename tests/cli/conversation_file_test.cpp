#include "cli/conversation_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json/parse.hpp>
#include <filesystem>
#include <fstream>

#include "support/temporary_folder.h"

namespace kvik {
namespace {

using testing::HasSubstr;

class ConversationFile : public testing::Test {
 protected:
  std::string write(const std::string& text) const {
    const std::string path = folder.path() + "/given.json";
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  std::string error_of(const std::string& text) const {
    const auto loaded = load_conversation(write(text));
    return loaded ? "" : loaded.error().message;
  }

  TemporaryFolder folder;
  const std::string path = folder.path() + "/chat.json";
  const Conversation conversation{{text_message("system", "Be \"brief\"."),
                                   text_message("user", "a\nb\t\\ \u00e4 \U0001f600 \x01"),
                                   text_message("assistant", "<|im_end|>")}};
};

TEST_F(ConversationFile, comes_back_as_it_was_saved) {
  EXPECT_EQ(save_conversation(conversation, "tiny", path), Saved::kNew);
  const auto loaded = load_conversation(path);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->messages(), conversation.messages());
  EXPECT_EQ(save_conversation(*loaded, "tiny", path), Saved::kReplaced);
}

TEST_F(ConversationFile, is_a_body_that_the_server_takes) {
  ASSERT_TRUE(save_conversation(conversation, "ti\"ny", path));
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto json = boost::json::parse(text);
  EXPECT_EQ(json.at("model").as_string(), "ti\"ny");
  EXPECT_EQ(json.at("messages").as_array().size(), 3u);
}

TEST_F(ConversationFile, is_for_its_owner_alone_and_leaves_nothing_beside_it) {
  ASSERT_TRUE(save_conversation(conversation, "tiny", path));
  struct stat about {};
  ASSERT_EQ(::stat(path.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777u, 0600u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST_F(ConversationFile, that_was_shared_stays_so_and_a_link_stays_a_link) {
  ASSERT_TRUE(save_conversation(conversation, "tiny", path));
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  const std::string link = folder.path() + "/link.json";
  ASSERT_EQ(::symlink(path.c_str(), link.c_str()), 0);
  EXPECT_EQ(save_conversation(conversation, "tiny", link), Saved::kReplaced);
  struct stat about {};
  ASSERT_EQ(::lstat(link.c_str(), &about), 0);
  EXPECT_TRUE(S_ISLNK(about.st_mode));
  ASSERT_EQ(::stat(path.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777u, 0644u);
}

TEST_F(ConversationFile, that_cannot_be_written_leaves_the_old_one) {
  ASSERT_TRUE(save_conversation(conversation, "tiny", path));
  const auto saved = save_conversation(conversation, "tiny", folder.path() + "/none/chat.json");
  ASSERT_FALSE(saved);
  EXPECT_THAT(saved.error().message, HasSubstr("No such file or directory"));
  EXPECT_TRUE(load_conversation(path));
}

TEST_F(ConversationFile, of_another_kind_is_refused_with_its_reason) {
  EXPECT_THAT(error_of(""), HasSubstr("it is not JSON"));
  EXPECT_THAT(error_of("{\"messages\": [\xff]}"), HasSubstr("it is not JSON"));
  EXPECT_THAT(error_of("[]"), HasSubstr("no list of messages"));
  EXPECT_THAT(error_of(R"({"messages": {}})"), HasSubstr("no list of messages"));
  EXPECT_THAT(error_of(R"({"messages": [1]})"), HasSubstr("message 1 lacks"));
  EXPECT_THAT(error_of(R"({"messages": [{"role": "user"}]})"), HasSubstr("message 1 lacks"));
  EXPECT_THAT(error_of(R"({"messages": [{"role": "user", "content": null}]})"),
              HasSubstr("message 1 lacks"));
  EXPECT_THAT(error_of(R"({"messages": [{"role": "user", "content": "a"},
                                        {"role": "system", "content": "b"}]})"),
              HasSubstr("message 2 has the role 'system'"));
  EXPECT_THAT(error_of(std::string(100'000, '[')), HasSubstr("it is not JSON"));
}

TEST_F(ConversationFile, that_is_no_file_is_not_waited_for) {
  EXPECT_THAT(load_conversation(folder.path()).error().message, HasSubstr("is not a regular file"));
  const std::string pipe = folder.path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(load_conversation(pipe).error().message, HasSubstr("is not a regular file"));
  EXPECT_FALSE(save_conversation(conversation, "tiny", pipe));
  EXPECT_FALSE(save_conversation(conversation, "tiny", "/dev/null"));
}

}  // namespace
}  // namespace kvik
