#include "base/variant.h"

#include <gtest/gtest.h>

#include <new>
#include <string>
#include <utility>
#include <vector>

namespace kvik {
namespace {

// An item whose copy fails for lack of memory.
struct Uncopied {
  Uncopied() = default;
  Uncopied(const Uncopied&) { throw std::bad_alloc(); }
  Uncopied& operator=(const Uncopied&) = default;
};

// With std::variant the program ends here with "double free" or an invalid jump.
TEST(Variant, a_copy_without_memory_is_an_exception_and_no_more) {
  using Value = Variant<std::monostate, bool, std::string, std::vector<Uncopied>>;
  const std::vector<Value> values(3, std::string("a text that does not lie within its object"));
  std::vector<Value> with_uncopied = values;
  with_uncopied.emplace_back(std::in_place_type<std::vector<Uncopied>>, 1);
  EXPECT_THROW(std::vector<Value>{with_uncopied}, std::bad_alloc);
  EXPECT_EQ(with_uncopied.back().index(), 3u);
  EXPECT_EQ(std::get<std::string>(with_uncopied[0]), std::get<std::string>(values[0]));
}

TEST(Variant, copies_and_moves_as_std_variant_does) {
  using Value = Variant<std::string, std::vector<int>>;
  std::vector<Value> values = {std::vector<int>{1, 2}, "b"};
  const std::vector<Value> copies = values;
  EXPECT_EQ(copies, values);
  values[0] = std::move(values[1]);
  EXPECT_EQ(std::get<0>(values[0]), "b");
  values[0] = copies[0];
  const auto size = [](const auto& value) { return value.size(); };
  EXPECT_EQ(std::visit(size, values[0]), 2u);
}

}  // namespace
}  // namespace kvik
