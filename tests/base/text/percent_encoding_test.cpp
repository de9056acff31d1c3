#include "base/text/percent_encoding.h"

#include <gtest/gtest.h>

#include <string_view>

namespace kvik {
namespace {

TEST(PercentEncoding, keeps_letters_digits_and_the_bytes_of_the_caller) {
  EXPECT_EQ(percent_encoded("aZ9-_./", "-."), "aZ9-%5F.%2F");
  EXPECT_EQ(percent_encoded(std::string_view("\0\n%\xc3\xa4", 5), ""), "%00%0A%25%C3%A4");
  EXPECT_EQ(percent_encoded("", ""), "");
}

}  // namespace
}  // namespace kvik
