#include "host_run/cuda_words.h"

namespace kvik::host_run {
namespace {

thread_local std::string fault;
thread_local Order order_of_grids = Order::kAscending;

}  // namespace

void multiply_fragments(int (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                        const int (&c)[4], int line) {
  LaneWords words{};
  for (uint32_t i = 0; i < 4; ++i) words[i] = a[i];
  for (uint32_t i = 0; i < 2; ++i) words[4 + i] = b[i];
  const auto& lanes = exchange({"a matrix product", line}, words);
  const uint32_t g = current->lane() / 4, t = current->lane() % 4;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t row = g + 8 * (i / 2), column = 2 * t + i % 2;
    int sum = c[i];
    // Four k of a row, or of a column, lie in a lane of four; of the upper sixteen in another word.
    for (uint32_t holder = 0; holder < 4; ++holder) {
      const LaneWords& a_lane = lanes[row % 8 * 4 + holder];
      const LaneWords& b_lane = lanes[column * 4 + holder];
      for (uint32_t upper = 0; upper < 2; ++upper) {
        sum = __dp4a(static_cast<int>(a_lane[row / 8 + 2 * upper]),
                     static_cast<int>(b_lane[4 + upper]), sum);
      }
    }
    d[i] = sum;
  }
}

int start_grid(const Index& blocks, uint32_t n_threads, const std::function<void()>& kernel) {
  const auto found = run_grid(blocks, n_threads, kernel, order_of_grids);
  if (!found) return 0;
  fault = *found;
  return kFault;
}

void set_order(Order order) { order_of_grids = order; }

std::string last_fault() { return fault; }

}  // namespace kvik::host_run
