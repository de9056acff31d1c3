#include "base/text/text_list.h"

#include <gtest/gtest.h>

#include <string>

namespace kvik {
namespace {

TEST(TextList, has_its_texts_in_order) {
  TextList list = {"yes", "", "no"};
  list.add(std::string("a\0b", 3));
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list[0], "yes");
  EXPECT_EQ(list[1], "");
  EXPECT_EQ(list[2], "no");
  EXPECT_EQ(list[3], std::string("a\0b", 3));
  EXPECT_EQ(list.n_bytes(), 8u);
  EXPECT_TRUE(TextList().empty());
}

TEST(TextList, of_the_same_bytes_in_other_pieces_is_another) {
  EXPECT_EQ(TextList({"ab", "c"}), TextList({"ab", "c"}));
  EXPECT_NE(TextList({"ab", "c"}), TextList({"a", "bc"}));
  EXPECT_NE(TextList({"ab", ""}), TextList({"ab"}));
}

}  // namespace
}  // namespace kvik
