#include "backend/cpu/cpu_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace kvik::cpu {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST(CpuMemory, buffers_of_every_size_come_zeroed_and_aligned) {
  CpuMemory memory;
  for (const size_t bytes : {size_t{1}, size_t{65}, 2 * kMiB - 1, 2 * kMiB, 5 * kMiB + 3}) {
    const Buffer buffer = memory.allocate(bytes);
    EXPECT_EQ(buffer.size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % (bytes >= 2 * kMiB ? 2 * kMiB : 64), 0u);
    EXPECT_TRUE(std::all_of(buffer.data(), buffer.data() + bytes,
                            [](std::byte b) { return b == std::byte{0}; }));
    std::fill(buffer.data(), buffer.data() + bytes, std::byte{1});
  }
}

TEST(CpuMemory, a_buffer_of_nothing_is_empty) {
  CpuMemory memory;
  EXPECT_EQ(memory.allocate(0).data(), nullptr);
}

TEST(CpuMemory, large_buffers_cost_nothing_before_they_are_written) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer of threads has no room for a terabyte";
#endif
  CpuMemory memory;
  const Buffer buffer = memory.allocate(size_t{1} << 40);
  buffer.data()[size_t{1} << 39] = std::byte{1};
  EXPECT_EQ(buffer.data()[0], std::byte{0});
}

TEST(CpuMemory, what_is_copied_in_comes_out_and_can_be_cleared) {
  CpuMemory memory;
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
