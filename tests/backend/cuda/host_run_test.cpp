#include <gmock/gmock.h>

#include <csignal>
#include <vector>

#include "host_run/cuda_words.h"
#include "host_run/fault.h"

namespace kvik::host_run {
namespace {

using ::testing::HasSubstr;

std::string fault_of(uint32_t n_threads, const std::function<void()>& kernel) {
  return run_grid({2, 1, 1}, n_threads, kernel).value_or("none");
}

TEST(HostRun, every_thread_of_every_block_runs_once) {
  std::vector<int> runs(3 * 2 * 2 * 96);
  EXPECT_FALSE(run_grid({3, 2, 2}, 96, [&] {
    const uint32_t block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    ++runs[block * blockDim.x + threadIdx.x];
  }));
  EXPECT_THAT(runs, ::testing::Each(1));
}

TEST(HostRun, blocks_and_threads_begin_in_the_order_that_is_asked_for) {
  std::vector<uint32_t> order;
  EXPECT_FALSE(run_grid(
      {2, 1, 2}, 32, [&] { order.push_back((blockIdx.z * 2 + blockIdx.x) * 32 + threadIdx.x); },
      Order::kDescending));
  for (uint32_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], 127 - i);
}

TEST(HostRun, a_block_is_whole_warps) {
  EXPECT_THAT(fault_of(33, [] {}), HasSubstr("a block of 33 threads"));
  EXPECT_THAT(fault_of(2048, [] {}), HasSubstr("1024 at most"));
}

TEST(HostRun, a_write_before_a_barrier_is_visible_after_it) {
  std::vector<uint32_t> out(256);
  EXPECT_EQ(fault_of(256,
                     [&] {
                       __shared__ Shared<uint32_t, 256> all;
                       for (uint32_t round = 0; round < 3; ++round) {
                         all.set(threadIdx.x, threadIdx.x + round);
                         __syncthreads();
                         out[threadIdx.x] = all.get(255 - threadIdx.x);
                         __syncthreads();
                       }
                     }),
            "none");
  for (uint32_t i = 0; i < 256; ++i) EXPECT_EQ(out[i], 257 - i);
}

TEST(HostRun, a_barrier_that_some_threads_do_not_reach_is_found) {
  EXPECT_THAT(fault_of(64,
                       [] {
                         if (threadIdx.x < 40) __syncthreads();
                       }),
              HasSubstr("waits at __syncthreads"));
  EXPECT_THAT(fault_of(64,
                       [] {
                         if (threadIdx.x < 32) {
                           __syncthreads();
                         } else {
                           __syncthreads();
                         }
                       }),
              HasSubstr("and thread 0 at __syncthreads"));
}

TEST(HostRun, a_fault_without_a_handler_ends_the_program) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto without_handler = [] {
    set_fault_handler(nullptr);
    report_fault("some sentence");
  };
  EXPECT_EXIT(without_handler(), ::testing::KilledBySignal(SIGABRT), "host run: some sentence");
}

TEST(HostRun, lanes_in_different_operations_of_their_warp_are_found) {
  EXPECT_THAT(fault_of(32,
                       [] {
                         if (threadIdx.x % 2 == 0) {
                           __shfl_xor_sync(~0u, 1, 1);
                         } else {
                           __syncwarp();
                         }
                       }),
              HasSubstr("is in __syncwarp"));
  EXPECT_THAT(fault_of(32,
                       [] {
                         if (threadIdx.x != 3) __ballot_sync(~0u, 1);
                       }),
              HasSubstr("waits at a vote"));
  EXPECT_THAT(fault_of(32, [] { __shfl_sync(1u, 0, 0); }), HasSubstr("part of a warp"));
}

TEST(HostRun, a_read_without_a_barrier_after_the_write_is_detected) {
  EXPECT_THAT(fault_of(64,
                       [] {
                         __shared__ Shared<float, 64> all;
                         all.set(threadIdx.x, 1.0f);
                         all.get(threadIdx.x / 2);
                       }),
              HasSubstr("used since the last barrier"));
}

TEST(HostRun, a_write_over_what_others_still_read_is_found) {
  EXPECT_THAT(fault_of(64,
                       [] {
                         __shared__ Shared<float, 1> one;
                         if (threadIdx.x == 0) one.set(0, 1.0f);
                         __syncthreads();
                         one.get(0);
                         if (threadIdx.x == 63) one.set(0, 2.0f);
                       }),
              HasSubstr("used since the last barrier"));
  EXPECT_THAT(fault_of(64,
                       [] {
                         __shared__ Shared<float, 1> one;
                         one.set(0, 1.0f);
                       }),
              HasSubstr("writes element 0"));
}

TEST(HostRun, a_barrier_of_the_warp_orders_its_own_lanes_alone) {
  EXPECT_EQ(fault_of(64,
                     [] {
                       __shared__ Shared<float, 64> all;
                       for (int round = 0; round < 3; ++round) {
                         all.set(threadIdx.x, 1.0f);
                         __syncwarp();
                         all.get(threadIdx.x ^ 5);
                         __syncwarp();
                       }
                     }),
            "none");
  EXPECT_THAT(fault_of(64,
                       [] {
                         __shared__ Shared<float, 64> all;
                         all.set(threadIdx.x, 1.0f);
                         __syncwarp();
                         all.get(threadIdx.x % 32);
                       }),
              HasSubstr("used since the last barrier"));
  // A shuffle is not a memory barrier.
  EXPECT_THAT(fault_of(32,
                       [] {
                         __shared__ Shared<float, 32> all;
                         all.set(threadIdx.x, 1.0f);
                         __shfl_xor_sync(~0u, 1, 1);
                         all.get(threadIdx.x ^ 1);
                       }),
              HasSubstr("used since the last barrier"));
}

TEST(HostRun, shared_memory_out_of_bounds_or_never_written_is_found) {
  EXPECT_THAT(fault_of(32,
                       [] {
                         __shared__ Shared<uint16_t, 10> few;
                         few.set(threadIdx.x, uint16_t{0});
                       }),
              HasSubstr("from number 10 of 10 on"));
  EXPECT_THAT(fault_of(32,
                       [] {
                         __shared__ Shared<uint16_t, 64> some;
                         some.set(2 * threadIdx.x, uint16_t{0});
                         some.get_as<uint32_t>(2 * threadIdx.x);
                       }),
              HasSubstr("that no thread wrote"));
  EXPECT_THAT(fault_of(32,
                       [] {
                         __shared__ Shared<uint16_t, 64> some;
                         some.set_as<uint32_t>(2 * (threadIdx.x % 31) + 1, 0u);
                       }),
              HasSubstr("not aligned"));
  EXPECT_THAT(fault_of(32,
                       [] {
                         __shared__ Shared<float, 8192> half;
                         __shared__ Shared<float, 8192> too_much;
                         half.set(threadIdx.x, 0.0f);
                         too_much.set(threadIdx.x, 0.0f);
                       }),
              HasSubstr("65536 bytes of shared memory"));
}

TEST(HostRun, a_block_does_not_see_what_the_one_before_it_left) {
  EXPECT_THAT(fault_of(32,
                       [] {
                         __shared__ Shared<float, 32> all;
                         if (blockIdx.x == 0) all.set(threadIdx.x, 1.0f);
                         all.get(threadIdx.x);
                       }),
              HasSubstr("that no thread wrote"));
}

TEST(HostRun, shuffles_and_votes_see_all_lanes) {
  EXPECT_EQ(fault_of(64,
                     [] {
                       const uint32_t lane = threadIdx.x % 32;
                       if (__shfl_xor_sync(~0u, lane, 16) != (lane ^ 16)) stop("xor");
                       if (__shfl_sync(~0u, static_cast<float>(lane), 7) != 7.0f) stop("from one");
                       if (__shfl_down_sync(~0u, lane, 8) != (lane + 8 < 32 ? lane + 8 : lane))
                         stop("down");
                       if (__ballot_sync(~0u, lane % 3 == 0) != 0x49249249u) stop("ballot");
                       if (!__any_sync(~0u, lane == 5) || __all_sync(~0u, lane == 5))
                         stop("any, all");
                     }),
            "none");
}

TEST(HostRun, products_of_packed_integers_are_signed) {
  EXPECT_EQ(__dp4a(0x7f80ff01, 0x02fe8003, 10), 127 * 2 + -128 * -2 + -1 * -128 + 1 * 3 + 10);
  EXPECT_EQ(__dp2a_lo(0x7fff8000, 0x7f80fe03, 5), 32767 * -2 + -32768 * 3 + 5);
  EXPECT_EQ(__dp2a_hi(0x7fff8000, 0x7f80fe03, 5), 32767 * 127 + -32768 * -128 + 5);
}

// A and B are laid out element by element as the PTX ISA specifies, and multiplied by a plain loop.
TEST(HostRun, a_matrix_product_takes_the_documented_fragments) {
  int a[16][32], b[32][8], c[16][8];
  uint32_t state = 1;
  const auto next = [&] {
    return static_cast<int8_t>((state = state * 1664525u + 1013904223u) >> 24);
  };
  for (auto& row : a) {
    for (int& value : row) value = next();
  }
  for (auto& row : b) {
    for (int& value : row) value = next();
  }
  for (auto& row : c) {
    for (int& value : row) value = 100 * next();
  }
  int out[16][8] = {};
  EXPECT_FALSE(run_grid({1, 1, 1}, 32, [&] {
    const uint32_t lane = threadIdx.x, group = lane >> 2, in_group = lane % 4;
    uint32_t fa[4] = {}, fb[2] = {};
    for (uint32_t i = 0; i < 16; ++i) {
      // row = groupID for a_i with 0 <= i < 4 || 8 <= i < 12, else groupID + 8
      // col = threadID_in_group * 4 + (i & 3), + 16 for i >= 8
      const uint32_t row = i < 4 || (i >= 8 && i < 12) ? group : group + 8;
      const uint32_t column = in_group * 4 + (i & 3) + (i >= 8 ? 16 : 0);
      fa[i / 4] |= static_cast<uint32_t>(static_cast<uint8_t>(a[row][column])) << (i % 4 * 8);
    }
    for (uint32_t i = 0; i < 8; ++i) {
      // row = threadID_in_group * 4 + (i & 3), + 16 for i >= 4; col = groupID
      const uint32_t row = in_group * 4 + (i & 3) + (i >= 4 ? 16 : 0);
      fb[i / 4] |= static_cast<uint32_t>(static_cast<uint8_t>(b[row][group])) << (i % 4 * 8);
    }
    int fc[4], fd[4];
    for (uint32_t i = 0; i < 4; ++i) {
      // row = groupID for i < 2, else groupID + 8; col = threadID_in_group * 2 + (i & 1)
      fc[i] = c[i < 2 ? group : group + 8][in_group * 2 + (i & 1)];
    }
    multiply_fragments(fd, fa, fb, fc, 0);
    for (uint32_t i = 0; i < 4; ++i) out[i < 2 ? group : group + 8][in_group * 2 + (i & 1)] = fd[i];
  }));
  for (uint32_t m = 0; m < 16; ++m) {
    for (uint32_t n = 0; n < 8; ++n) {
      int sum = c[m][n];
      for (uint32_t k = 0; k < 32; ++k) sum += a[m][k] * b[k][n];
      EXPECT_EQ(out[m][n], sum) << m << ", " << n;
    }
  }
}

}  // namespace
}  // namespace kvik::host_run
