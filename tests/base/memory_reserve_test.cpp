#include "base/memory_reserve.h"

#include <gtest/gtest.h>

#include <memory>
#include <new>

namespace kvik {
namespace {

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // their operator new asks nobody

TEST(MemoryReserve, is_let_go_once_for_whoever_asks_for_more_than_there_is_and_kept_again) {
  MemoryReserve::keep(size_t{1} << 20);
  const std::new_handler let_go = std::get_new_handler();
  ASSERT_NE(let_go, nullptr);
  let_go();
  EXPECT_EQ(std::get_new_handler(), nullptr) << "the next one who finds nothing is refused";
  EXPECT_TRUE(MemoryReserve::restore());
  EXPECT_EQ(std::get_new_handler(), let_go);
}

TEST(MemoryReserve, does_not_help_who_asks_for_more_than_it_has) {
  MemoryReserve::keep(size_t{1} << 20);
  const volatile size_t too_much = size_t{1} << 50;
  EXPECT_THROW(static_cast<void>(std::make_unique<char[]>(too_much)), std::bad_alloc);
  EXPECT_EQ(std::get_new_handler(), nullptr);
  EXPECT_TRUE(MemoryReserve::restore());
  EXPECT_NE(std::get_new_handler(), nullptr);
}

#endif

}  // namespace
}  // namespace kvik
