#include "base/process/memory_reserve.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <chrono>
#include <memory>
#include <new>
#include <thread>

namespace kvik {
namespace {

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // their operator new calls no handler

TEST(MemoryReserve, is_released_once_when_memory_is_short_and_restored) {
  MemoryReserve::keep(size_t{1} << 20);
  const std::new_handler on_shortage = std::get_new_handler();
  ASSERT_NE(on_shortage, nullptr);
  on_shortage();
  EXPECT_FALSE(MemoryReserve::is_kept());
  EXPECT_THROW(on_shortage(), std::bad_alloc) << "the next one who finds nothing is refused";
  EXPECT_TRUE(MemoryReserve::restore());
  EXPECT_TRUE(MemoryReserve::is_kept());
}

TEST(MemoryReserve, a_larger_reserve_replaces_the_one_held) {
  constexpr size_t kLarger = size_t{64} << 20;
  MemoryReserve::keep(size_t{1} << 20);
  const size_t before = ::mallinfo2().hblkhd;  // bytes that malloc has mapped
  MemoryReserve::keep(kLarger);
  EXPECT_GE(::mallinfo2().hblkhd, before + kLarger - (size_t{1} << 20));
  EXPECT_TRUE(MemoryReserve::is_kept());
  const size_t after = ::mallinfo2().hblkhd;
  MemoryReserve::keep(size_t{1} << 20);
  EXPECT_EQ(::mallinfo2().hblkhd, after);
  std::get_new_handler()();
  EXPECT_LE(::mallinfo2().hblkhd, after - kLarger) << "the whole reserve is released";
  EXPECT_TRUE(MemoryReserve::restore());
  EXPECT_EQ(::mallinfo2().hblkhd, after);
}

TEST(MemoryReserve, larger_allocations_still_fail) {
  MemoryReserve::keep(size_t{1} << 20);
  const volatile size_t too_much = size_t{1} << 50;
  EXPECT_THROW(static_cast<void>(std::make_unique<char[]>(too_much)), std::bad_alloc);
  EXPECT_TRUE(MemoryReserve::restore());
}

TEST(MemoryReserve, a_patient_thread_waits_before_it_is_refused) {
  const std::chrono::milliseconds patience{60};
  const volatile size_t too_much = size_t{1} << 50;
  std::thread([&] {
    MemoryReserve::wait_for_memory(patience);
    for (int attempt = 0; attempt < 2; ++attempt) {
      const auto begin = std::chrono::steady_clock::now();
      EXPECT_THROW(static_cast<void>(std::make_unique<char[]>(too_much)), std::bad_alloc);
      EXPECT_GE(std::chrono::steady_clock::now() - begin, patience) << attempt;
      std::this_thread::sleep_for(patience);
    }
  }).join();
}

// An std::bad_alloc thrown during unwinding would end the process.
TEST(MemoryReserve, a_destructor_asks_again_while_an_exception_passes) {
  MemoryReserve::keep(size_t{1} << 20);
  const std::new_handler on_shortage = std::get_new_handler();
  on_shortage();
  int n_asked = 0;
  struct Asks {
    ~Asks() {
      for (; n_asked < 3; ++n_asked) on_shortage();
    }
    const std::new_handler on_shortage;
    int& n_asked;
  };
  try {
    const Asks asks(on_shortage, n_asked);
    throw std::bad_alloc();
  } catch (const std::bad_alloc&) {
  }
  EXPECT_EQ(n_asked, 3);
  EXPECT_THROW(on_shortage(), std::bad_alloc) << "with no exception on its way";
  EXPECT_TRUE(MemoryReserve::restore());
}

// The program that uses the library may have a handler of its own.
TEST(MemoryReserve, an_earlier_handler_is_called_when_the_reserve_is_used_up) {
  static int n_called = 0;
  const std::new_handler before = std::set_new_handler([] { ++n_called; });
  MemoryReserve::keep(size_t{1} << 20);
  const std::new_handler on_shortage = std::get_new_handler();
  on_shortage();
  EXPECT_EQ(n_called, 0);
  on_shortage();
  EXPECT_EQ(n_called, 1);
  std::set_new_handler(nullptr);
  MemoryReserve::keep(size_t{1} << 20);  // forgets the handler of this test
  std::set_new_handler(before);
  EXPECT_TRUE(MemoryReserve::restore());
}

#endif

}  // namespace
}  // namespace kvik
