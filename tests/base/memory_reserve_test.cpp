#include "base/memory_reserve.h"

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <thread>

namespace kvik {
namespace {

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // their operator new asks nobody

TEST(MemoryReserve, is_let_go_once_for_whoever_asks_for_more_than_there_is_and_kept_again) {
  MemoryReserve::keep(size_t{1} << 20);
  const std::new_handler let_go = std::get_new_handler();
  ASSERT_NE(let_go, nullptr);
  EXPECT_NO_THROW(let_go());
  EXPECT_THROW(let_go(), std::bad_alloc) << "the next one who finds nothing is refused";
  EXPECT_TRUE(MemoryReserve::restore());
  EXPECT_NO_THROW(let_go());
  EXPECT_TRUE(MemoryReserve::restore());
}

TEST(MemoryReserve, does_not_help_who_asks_for_more_than_it_has) {
  MemoryReserve::keep(size_t{1} << 20);
  const volatile size_t too_much = size_t{1} << 50;
  EXPECT_THROW(static_cast<void>(std::make_unique<char[]>(too_much)), std::bad_alloc);
  EXPECT_TRUE(MemoryReserve::restore());
}

TEST(MemoryReserve, a_thread_that_keeps_some_for_itself_has_it_when_the_rest_is_gone) {
  MemoryReserve::keep(size_t{1} << 20);
  std::thread([] {
    MemoryReserve::keep_for_this_thread();
    const std::new_handler let_go = std::get_new_handler();
    EXPECT_NO_THROW(let_go());  // the reserve of all
    EXPECT_NO_THROW(let_go());  // its own
    std::thread([let_go] { EXPECT_THROW(let_go(), std::bad_alloc); }).join();
    EXPECT_NO_THROW(let_go());
    EXPECT_TRUE(MemoryReserve::restore());
  }).join();
}

#endif

}  // namespace
}  // namespace kvik
