#include "base/metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace kvik {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Metadata one_of_each() {
  Metadata m;
  m.insert("bool", true);
  m.insert("int", int64_t{-5});
  m.insert("positive", int64_t{5});
  m.insert("uint", uint64_t{7});
  m.insert("float", 0.5);
  m.insert("string", std::string("text"));
  m.insert("bools", std::vector<bool>{true});
  m.insert("ints", std::vector<int64_t>{-1, 2});
  m.insert("uints", std::vector<uint64_t>{3, 4});
  m.insert("floats", std::vector<double>{0.5});
  m.insert("strings", std::vector<std::string>{"a", "b"});
  return m;
}

TEST(Metadata, the_first_value_of_a_key_stays) {
  Metadata m;
  EXPECT_TRUE(m.insert("key", uint64_t{1}));
  EXPECT_FALSE(m.insert("key", uint64_t{2}));
  EXPECT_EQ(m.get_uint("key").value(), 1u);
  EXPECT_EQ(m.values().size(), 1u);
}

TEST(Metadata, an_absent_key_is_no_error) {
  const Metadata m;
  EXPECT_FALSE(m.contains("key"));
  EXPECT_EQ(m.find("key"), nullptr);
  EXPECT_EQ(m.get_uint("key").value(), std::nullopt);
  EXPECT_EQ(m.get_float("key").value(), std::nullopt);
  EXPECT_EQ(m.get_bool("key").value(), std::nullopt);
  EXPECT_EQ(m.get_string("key").value(), std::nullopt);
  EXPECT_EQ(m.get_strings("key").value(), nullptr);
  EXPECT_EQ(m.get_floats("key").value(), nullptr);
  EXPECT_EQ(m.get_ints("key").value(), std::nullopt);
}

TEST(Metadata, values_are_read_as_what_they_are) {
  const Metadata m = one_of_each();
  EXPECT_EQ(m.get_bool("bool").value(), true);
  EXPECT_EQ(m.get_uint("uint").value(), 7u);
  EXPECT_EQ(m.get_float("float").value(), 0.5);
  EXPECT_EQ(m.get_string("string").value(), "text");
  EXPECT_THAT(*m.get_strings("strings").value(), ElementsAre("a", "b"));
  EXPECT_THAT(*m.get_floats("floats").value(), ElementsAre(0.5));
  EXPECT_THAT(*m.get_ints("ints").value(), ElementsAre(-1, 2));
}

TEST(Metadata, integers_of_either_sign_serve_where_they_fit) {
  const Metadata m = one_of_each();
  EXPECT_EQ(m.get_uint("positive").value(), 5u);
  EXPECT_EQ(m.get_float("int").value(), -5.0);
  EXPECT_EQ(m.get_float("uint").value(), 7.0);
  EXPECT_THAT(*m.get_ints("uints").value(), ElementsAre(3, 4));
}

TEST(Metadata, a_negative_number_is_no_count) {
  const auto value = one_of_each().get_uint("int");
  ASSERT_FALSE(value);
  EXPECT_THAT(value.error().message, AllOf(HasSubstr("'int'"), HasSubstr("-5")));
}

TEST(Metadata, an_integer_of_64_bits_does_not_wrap) {
  Metadata m;
  m.insert("ids", std::vector<uint64_t>{1, std::numeric_limits<uint64_t>::max()});
  const auto ids = m.get_ints("ids");
  ASSERT_FALSE(ids);
  EXPECT_THAT(ids.error().message, AllOf(HasSubstr("'ids'"), HasSubstr("18446744073709551615")));
}

TEST(Metadata, a_wrong_type_names_the_key_what_it_is_and_what_was_expected) {
  const Metadata m = one_of_each();
  const auto value = m.get_uint("string");
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(value.error().message,
            "metadata key 'string' is \"text\", a string, expected an unsigned integer");
  EXPECT_THAT(m.get_bool("uint").error().message, HasSubstr("expected a bool"));
  EXPECT_THAT(m.get_float("bool").error().message, HasSubstr("is true, a bool"));
  EXPECT_THAT(m.get_string("strings").error().message, HasSubstr("an array of strings"));
  EXPECT_THAT(m.get_strings("string").error().message, HasSubstr("is \"text\", a string"));
  EXPECT_THAT(m.get_floats("uints").error().message, HasSubstr("array of unsigned"));
  EXPECT_THAT(m.get_ints("floats").error().message, HasSubstr("array of floats"));
  EXPECT_THAT(m.get_ints("bools").error().message, HasSubstr("array of bools"));
  Metadata text;
  text.insert("long", std::string(300, 'x'));
  EXPECT_THAT(text.get_uint("long").error().message, HasSubstr("x…\", a string"));
  EXPECT_THAT(m.get_uint("ints").error().message, HasSubstr("array of signed"));
}

}  // namespace
}  // namespace kvik
