#include <thread>

#include "backend/cuda/both_backends.h"
#include "base/log.h"

namespace kvik {
namespace {

using cuda::DeviceCounters;
using host_run::HostDevice;
using testing::PlacedRows;
using testing::random_floats;

constexpr uint32_t kRows = 4, kColumns = 40;

std::vector<float> some_rows() { return random_floats(size_t{kRows} * kColumns, 1); }

// A backend on a device, and the rows that steps modify.
class Steps {
 public:
  Steps() {
    auto own = std::make_unique<HostDevice>();
    device_ = own.get();
    backend_ = std::move(*cuda::make_backend(std::move(own), 1));
    x_ = std::make_unique<PlacedRows>(*backend_, kRows, kColumns, some_rows());
  }

  // Scales n_rows rows n times, each row by a factor from a list, and then reads the rows.
  std::vector<float> step(uint32_t n, uint32_t n_rows, float factor) {
    const std::vector<float> factors(n_rows, factor);
    backend_->begin_step();
    for (uint32_t i = 0; i < n; ++i) backend_->scale_rows(x_->rows.slice(0, n_rows), factors);
    backend_->wait();
    return x_->values();
  }
  DeviceCounters counters() const { return device_->counters(); }
  HostDevice& device() { return *device_; }
  Backend& backend() { return *backend_; }
  PlacedRows& x() { return *x_; }

 private:
  HostDevice* device_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<PlacedRows> x_;
};

TEST(CudaSteps, defer_launches_until_results_are_read) {
  Steps steps;
  const std::vector<float> factors(kRows, 2.0f);
  steps.backend().begin_step();
  for (int i = 0; i < 3; ++i) steps.backend().scale_rows(steps.x().rows, factors);
  EXPECT_EQ(steps.counters().n_launches, 0u);
  const uint64_t n_copies = steps.counters().n_copies_in;
  const std::vector<float> values = steps.x().values();
  EXPECT_EQ(steps.counters().n_launches, 3u);
  EXPECT_EQ(steps.counters().n_copies_in - n_copies, 1u);  // one list for all of them
  for (size_t i = 0; i < kColumns; ++i) EXPECT_EQ(values[i], 8 * some_rows()[i]);
  steps.backend().scale_rows(steps.x().rows, factors);
  EXPECT_EQ(steps.counters().n_launches, 3u);  // the step continues
  steps.backend().wait();
  EXPECT_EQ(steps.counters().n_launches, 4u);
  steps.backend().scale_rows(steps.x().rows, factors);
  EXPECT_EQ(steps.counters().n_launches, 5u);  // operations outside a step are launched at once
}

TEST(CudaSteps, what_another_thread_copies_hands_nothing_over) {
  Steps steps;
  steps.backend().begin_step();
  steps.backend().scale(steps.x().rows, 2.0f);
  const Buffer other = steps.backend().memory().allocate(4);
  std::thread([&] {
    const float one = 1;
    steps.backend().memory().copy_in(other.data(), std::as_bytes(std::span(&one, 1)));
  }).join();
  EXPECT_EQ(steps.counters().n_launches, 0u);
  steps.backend().wait();
  EXPECT_EQ(steps.counters().n_launches, 1u);
}

TEST(CudaSteps, are_a_graph_from_the_second_one_of_their_kind_on) {
  Steps steps;
  std::vector<float> expected = some_rows();
  const auto values_of = [&](float factor, uint32_t n, uint32_t n_rows) {
    for (uint32_t i = 0; i < n * n_rows * kColumns; ++i)
      expected[i % (n_rows * kColumns)] *= factor;
    std::vector<float> with_padding(kRows * (kColumns + PlacedRows::kPadding),
                                    PlacedRows::kUntouched);
    for (uint32_t i = 0; i < kRows * kColumns; ++i) {
      with_padding[i / kColumns * steps.x().rows.stride + i % kColumns] = expected[i];
    }
    return with_padding;
  };
  EXPECT_EQ(steps.step(6, 2, 3.0f), values_of(3.0f, 6, 2));
  EXPECT_EQ(steps.counters().n_graph_runs, 0u);
  EXPECT_EQ(steps.step(6, 2, 3.0f), values_of(3.0f, 6, 2));
  EXPECT_EQ(steps.counters().n_graphs, 1u);
  EXPECT_EQ(steps.counters().n_graph_runs, 1u);
  // With other lists at the same addresses, the graph does not change and only the lists are
  // copied.
  const uint64_t bytes_in = steps.counters().bytes_in;
  EXPECT_EQ(steps.step(6, 2, 0.5f), values_of(0.5f, 6, 2));
  EXPECT_EQ(steps.counters().n_graph_runs, 2u);
  EXPECT_EQ(steps.counters().n_graph_changes, 0u);
  EXPECT_LE(steps.counters().bytes_in - bytes_in, 16u);
  // With another grid, each of its launches is updated, and again when the first grid returns.
  EXPECT_EQ(steps.step(6, 3, 2.0f), values_of(2.0f, 6, 3));
  EXPECT_EQ(steps.counters().n_graph_changes, 6u);
  EXPECT_EQ(steps.step(6, 2, 0.5f), values_of(0.5f, 6, 2));
  EXPECT_EQ(steps.counters().n_graph_changes, 12u);
  EXPECT_EQ(steps.counters().n_graphs, 1u);
  EXPECT_EQ(steps.counters().n_launches, 30u);
}

TEST(CudaSteps, of_more_kinds_than_are_kept_have_the_same_bytes) {
  Steps steps, eager;
  for (int round = 0; round < 2; ++round) {
    for (uint32_t n = 4; n < 140; ++n) {
      const float factor = n % 2 == 0 ? 0.5f : 2.0f;
      const std::vector<float> values = steps.step(n, 1 + n % kRows, factor);
      for (uint32_t i = 0; i < n; ++i) {
        const std::vector<float> factors(1 + n % kRows, factor);
        eager.backend().scale_rows(eager.x().rows.slice(0, 1 + n % kRows), factors);
      }
      ASSERT_EQ(values, eager.x().values()) << n;
    }
  }
  EXPECT_EQ(steps.counters().n_launches, eager.counters().n_launches);
}

TEST(CudaSteps, of_a_device_that_makes_no_graphs_are_handed_over_launch_by_launch) {
  Steps steps, other;
  steps.device().refuse_graphs();
  for (const float factor : {3.0f, 0.5f, 2.0f}) {
    EXPECT_EQ(steps.step(6, 2, factor), other.step(6, 2, factor));
  }
  EXPECT_EQ(steps.counters().n_graphs, 1u);  // the device is asked only once
  EXPECT_EQ(steps.counters().n_graph_runs, 0u);
  EXPECT_EQ(steps.counters().n_launches, other.counters().n_launches);
}

// Layers with experts routed by the host read scores, so the same kernels repeat after each read.
TEST(CudaSteps, of_several_pieces_that_are_alike_have_a_graph_for_each) {
  Steps steps;
  const auto step = [&] {
    steps.backend().begin_step();
    for (uint32_t row = 0; row < kRows; ++row) {
      for (int i = 0; i < 5; ++i) steps.backend().scale(steps.x().rows.slice(row, 1), 2.0f);
      steps.x().values();
    }
    steps.backend().wait();
  };
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(steps.counters().n_graphs, kRows);
  EXPECT_EQ(steps.counters().n_graph_runs, 2 * kRows);
  EXPECT_EQ(steps.counters().n_graph_changes, 0u);
  EXPECT_EQ(steps.x().values()[0], 32768 * some_rows()[0]);
}

TEST(CudaSteps, that_are_broken_off_do_nothing_more) {
  Steps steps;
  steps.backend().begin_step();
  steps.backend().scale(steps.x().rows, 2.0f);
  steps.backend().abandon_step();
  EXPECT_EQ(steps.x().values()[0], some_rows()[0]);
  EXPECT_EQ(steps.counters().n_launches, 0u);
  EXPECT_EQ(steps.step(1, kRows, 2.0f)[0], 2 * some_rows()[0]);
}

// Lists larger than a chunk of the list memory.
TEST(CudaSteps, have_room_for_lists_of_any_size) {
  constexpr uint32_t kMany = 100000;
  Steps steps;
  PlacedRows x(steps.backend(), kMany, 1, std::vector<float>(kMany, 1.0f));
  for (const float factor : {2.0f, 4.0f}) {
    steps.backend().begin_step();
    for (const uint32_t n : {kMany, kMany / 2, kMany - 1}) {
      std::vector<float> factors(n, factor);
      factors.back() = 1;
      steps.backend().scale_rows(x.rows.slice(0, n), factors);
    }
    steps.backend().wait();
  }
  const std::vector<float> values = x.values();
  const auto at = [&](uint32_t row) { return values[size_t{row} * x.rows.stride]; };
  EXPECT_EQ(at(0), 512.0f);
  EXPECT_EQ(at(kMany / 2 - 1), 64.0f);  // the last factor of one list is 1
  EXPECT_EQ(at(kMany / 2), 64.0f);
  EXPECT_EQ(at(kMany - 2), 8.0f);
  EXPECT_EQ(at(kMany - 1), 1.0f);
}

TEST(CudaSteps, whose_device_disappears_end_the_process_when_they_are_handed_over) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto lose = [] {
    log::init("info");
    Steps steps;
    steps.backend().begin_step();
    steps.backend().scale(steps.x().rows, 2.0f);
    steps.device().disappear();
    steps.backend().wait();
  };
  EXPECT_EXIT(lose(), ::testing::ExitedWithCode(1),
              "the GPU is gone.*cannot continue without the GPU");
}

}  // namespace
}  // namespace kvik
