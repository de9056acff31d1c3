#include "base/histogram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace kvik {
namespace {

TEST(Histogram, a_value_is_counted_in_the_first_bucket_that_reaches_it) {
  Histogram histogram(1.0);
  histogram.record(0.5);
  histogram.record(1.0);
  histogram.record(1.1);
  histogram.record(2.0);
  histogram.record(2.1);
  EXPECT_EQ(histogram.in_bucket(0), 2u);
  EXPECT_EQ(histogram.in_bucket(1), 1u);
  EXPECT_EQ(histogram.in_bucket(2), 1u);
  EXPECT_EQ(histogram.in_bucket(3), 1u);
  EXPECT_EQ(histogram.count(), 5u);
  EXPECT_DOUBLE_EQ(histogram.sum(), 6.7);
}

TEST(Histogram, bounds_double_every_second_bucket) {
  const Histogram histogram(0.0001);
  for (size_t i = 2; i < Histogram::kBuckets; ++i) {
    EXPECT_DOUBLE_EQ(histogram.bound(i), 2 * histogram.bound(i - 2));
    EXPECT_GT(histogram.bound(i), histogram.bound(i - 1));
  }
}

TEST(Histogram, larger_values_are_counted_in_the_last_bucket) {
  Histogram histogram(1.0);
  histogram.record(1e12);
  histogram.record(std::numeric_limits<double>::infinity());
  EXPECT_EQ(histogram.in_bucket(Histogram::kBuckets), 2u);
  EXPECT_EQ(histogram.quantile(0.5), histogram.bound(Histogram::kBuckets - 1));
}

TEST(Histogram, negative_values_and_no_numbers_count_as_0) {
  Histogram histogram(1.0);
  histogram.record(-5);
  histogram.record(std::nan(""));
  EXPECT_EQ(histogram.in_bucket(0), 2u);
  EXPECT_EQ(histogram.sum(), 0);
}

TEST(Histogram, quantiles_are_within_their_bucket) {
  Histogram histogram(0.001);
  for (int i = 1; i <= 1000; ++i) histogram.record(i * 0.001);
  EXPECT_NEAR(histogram.quantile(0.5), 0.5, 0.5 * 0.05);
  EXPECT_NEAR(histogram.quantile(0.99), 0.99, 0.99 * 0.05);
  EXPECT_NEAR(histogram.mean(), 0.5005, 1e-9);
}

TEST(Histogram, an_empty_one_has_neither_mean_nor_quantile) {
  const Histogram histogram(1.0);
  EXPECT_EQ(histogram.mean(), 0);
  EXPECT_EQ(histogram.quantile(0.99), 0);
}

}  // namespace
}  // namespace kvik
