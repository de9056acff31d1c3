#include "cli/input_history.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "support/temporary_folder.h"

namespace kvik {
namespace {

using Inputs = std::vector<std::string>;

class History : public testing::Test {
 protected:
  TemporaryFolder folder;
  const std::string path = folder.path() + "/state/kvik/chat_history";
};

TEST_F(History, outlives_its_session) {
  const Inputs typed = {"Hello", "two\nlines", "a \\n is no line's end \\", "ä 😀"};
  {
    InputHistory history(path);
    for (const std::string& input : typed) EXPECT_TRUE(history.add(input));
  }
  EXPECT_EQ(InputHistory(path).inputs(), typed);
}

TEST_F(History, of_sessions_side_by_side_is_one) {
  InputHistory one(path), other(path);
  one.add("a");
  other.add("b");
  one.add("c");
  EXPECT_EQ(InputHistory(path).inputs(), (Inputs{"a", "b", "c"}));
  EXPECT_EQ(one.inputs(), (Inputs{"a", "c"}));
}

TEST_F(History, holds_the_same_input_once_in_a_row) {
  InputHistory history(path);
  history.add("a");
  EXPECT_FALSE(history.add("a"));
  history.add("b");
  EXPECT_TRUE(history.add("a"));
  EXPECT_EQ(InputHistory(path).inputs(), (Inputs{"a", "b", "a"}));
}

TEST_F(History, is_for_its_owner_alone) {
  InputHistory(path).add("secret");
  struct stat about {};
  ASSERT_EQ(::stat(path.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777u, 0600u);
  ASSERT_EQ(::stat((folder.path() + "/state/kvik").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777u, 0700u);
}

TEST_F(History, that_grew_long_is_shortened_when_it_is_read) {
  {
    InputHistory history(path);
    for (size_t i = 0; i < 2 * InputHistory::kMaxInputs + 1; ++i) history.add(std::to_string(i));
  }
  const InputHistory again(path);
  ASSERT_EQ(again.inputs().size(), InputHistory::kMaxInputs);
  EXPECT_EQ(again.inputs().back(), std::to_string(2 * InputHistory::kMaxInputs));
  EXPECT_EQ(InputHistory(path).inputs(), again.inputs());
}

TEST_F(History, that_cannot_be_kept_is_the_sessions_own) {
  for (const std::string& nowhere :
       {std::string(), std::string("/proc/none/history"), folder.path()}) {
    InputHistory history(nowhere);
    EXPECT_TRUE(history.add("a"));
    EXPECT_EQ(history.inputs(), Inputs{"a"});
  }
}

TEST_F(History, of_garbage_is_no_trouble) {
  const std::string garbage = folder.path() + "/garbage";
  std::ofstream(garbage, std::ios::binary) << "a\\" << '\n' << "\xff\n\n" << '\0' << "\nlast";
  EXPECT_EQ(InputHistory(garbage).inputs(),
            (Inputs{"a\\", "\ufffd", std::string(1, '\0'), "last"}));
}

}  // namespace
}  // namespace kvik
