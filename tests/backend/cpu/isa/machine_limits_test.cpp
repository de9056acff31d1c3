#include "backend/cpu/isa/machine_limits.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kvik {
namespace {

TEST(MachineProbe, each_take_is_of_the_looks_since_the_one_before) {
  MachineProbe probe(1);
  for (const uint32_t n_measurements : {1u, 3u}) {
    probe.look(n_measurements);
    const MachineLimits limits = probe.take();
    for (const double limit : {limits.read_bytes_per_s, limits.f32_ops_per_s, limits.int8_ops_per_s,
                               limits.int4_ops_per_s}) {
      EXPECT_TRUE(std::isfinite(limit));
      EXPECT_GT(limit, 1e6);  // exceeded by every machine; the actual value is not tested
    }
    EXPECT_TRUE(std::isfinite(limits.bf16_ops_per_s));
  }
}

TEST(MachineLimits, the_best_is_the_highest_of_each) {
  const MachineLimits measured[] = {{1, 20, 3, 40, 5}, {10, 2, 30, 4, 50}};
  const MachineLimits best = best_of(measured);
  EXPECT_EQ(best.read_bytes_per_s, 10);
  EXPECT_EQ(best.f32_ops_per_s, 20);
  EXPECT_EQ(best.bf16_ops_per_s, 30);
  EXPECT_EQ(best.int8_ops_per_s, 40);
  EXPECT_EQ(best.int4_ops_per_s, 50);
}

}  // namespace
}  // namespace kvik
