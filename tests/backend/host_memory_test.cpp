#include "backend/host_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <new>
#include <vector>

namespace kvik::cpu {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST(HostMemory, buffers_of_every_size_come_zeroed_and_aligned) {
  HostMemory memory;
  for (const size_t bytes : {size_t{1}, size_t{65}, 2 * kMiB - 1, 2 * kMiB, 5 * kMiB + 3}) {
    const Buffer buffer = memory.allocate(bytes);
    EXPECT_EQ(buffer.size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % (bytes >= 2 * kMiB ? 2 * kMiB : 64), 0u);
    EXPECT_TRUE(std::all_of(buffer.data(), buffer.data() + bytes,
                            [](std::byte b) { return b == std::byte{0}; }));
    std::fill(buffer.data(), buffer.data() + bytes, std::byte{1});
  }
}

TEST(HostMemory, a_buffer_of_nothing_is_empty) {
  HostMemory memory;
  EXPECT_EQ(memory.allocate(0).data(), nullptr);
}

// Allocates buffers until no memory is left.
void expect_end_of_memory(size_t buffer_bytes) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer ends the process itself";
#endif
  HostMemory memory;
  std::vector<Buffer> buffers(1000);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  size_t n_pages = 0;
  std::ifstream("/proc/self/statm") >> n_pages;
  const rlimit narrow{.rlim_cur = n_pages * 4096 + 8 * buffer_bytes, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &narrow), 0);
  bool is_refused = false;
  try {
    for (Buffer& buffer : buffers) buffer = memory.allocate(buffer_bytes);
  } catch (const std::bad_alloc&) {
    is_refused = true;
  }
  setrlimit(RLIMIT_AS, &before);
  EXPECT_TRUE(is_refused);
  buffers.clear();
  EXPECT_EQ(memory.held_bytes(), 0u);
}

TEST(HostMemory, a_small_buffer_that_is_not_to_be_had_ends_no_process) {
  expect_end_of_memory(kMiB);
}

TEST(HostMemory, a_large_buffer_that_is_not_to_be_had_ends_no_process) {
  expect_end_of_memory(16 * kMiB);
}

TEST(HostMemory, a_large_buffer_gets_what_a_handler_lets_go) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer ends the process itself";
#endif
  HostMemory memory;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  static rlimit wide;
  wide = before;
  size_t n_pages = 0;
  std::ifstream("/proc/self/statm") >> n_pages;
  const rlimit narrow{.rlim_cur = n_pages * 4096 + 4 * kMiB, .rlim_max = before.rlim_max};
  std::set_new_handler([] {
    std::set_new_handler(nullptr);
    setrlimit(RLIMIT_AS, &wide);
  });
  ASSERT_EQ(setrlimit(RLIMIT_AS, &narrow), 0);
  const Buffer buffer = memory.allocate(16 * kMiB);
  EXPECT_EQ(buffer.size(), 16 * kMiB);
  EXPECT_EQ(std::get_new_handler(), nullptr);
}

TEST(HostMemory, large_buffers_cost_nothing_before_they_are_written) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer of threads has no room for a terabyte";
#endif
  HostMemory memory;
  const Buffer buffer = memory.allocate(size_t{1} << 40);
  buffer.data()[size_t{1} << 39] = std::byte{1};
  EXPECT_EQ(buffer.data()[0], std::byte{0});
}

TEST(HostMemory, what_is_copied_in_comes_out_and_can_be_cleared) {
  HostMemory memory;
  const Buffer buffer = memory.allocate(8);
  const std::vector<std::byte> in(8, std::byte{7});
  std::vector<std::byte> out(8);
  memory.copy_in(buffer.data(), in);
  memory.copy_out(out, buffer.data());
  EXPECT_EQ(in, out);
  memory.clear(buffer.data(), 4);
  memory.copy_out(out, buffer.data());
  EXPECT_EQ(out[3], std::byte{0});
  EXPECT_EQ(out[4], std::byte{7});
}

}  // namespace
}  // namespace kvik::cpu
