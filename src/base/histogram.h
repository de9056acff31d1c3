#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace kvik {

// Histogram with buckets whose upper bounds grow by √2 from `first_bound`, about 20 per factor of
// 1,000, and an unbounded last bucket. A value type of fixed size that allocates nothing.
//
//   0 … first · √2⁰ … first · √2¹ … first · √2² …
class Histogram {
 public:
  static constexpr size_t kBuckets = 45;  // bounds span a factor of 2²² = 4.2 million

  explicit Histogram(double first_bound) : first_bound_(first_bound) {}

  // Negative values and NaN count as 0.
  void record(double value) {
    if (!(value > 0)) value = 0;
    size_t bucket = 0;
    while (bucket < kBuckets && value > bound(bucket)) ++bucket;
    ++counts_[bucket];
    ++count_;
    sum_ += value;
  }

  // Returns the upper bound of bucket i < kBuckets; bucket kBuckets has none.
  double bound(size_t i) const {
    const double root = i % 2 == 0 ? 1.0 : 1.4142135623730951;
    return std::ldexp(first_bound_ * root, static_cast<int>(i / 2));
  }
  // Returns the number of values in bucket i <= kBuckets.
  uint64_t in_bucket(size_t i) const { return counts_[i]; }
  uint64_t count() const { return count_; }
  double sum() const { return sum_; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

  // Returns the quantile for a share in [0, 1], interpolated within its bucket; the largest bound
  // if the value lies beyond it, 0 if there are no values.
  double quantile(double share) const {
    const double wanted = share * static_cast<double>(count_);
    double below = 0;
    for (size_t i = 0; i < kBuckets; ++i) {
      const auto here = static_cast<double>(counts_[i]);
      if (here > 0 && below + here >= wanted) {
        const double from = i == 0 ? 0 : bound(i - 1);
        return from + (bound(i) - from) * (wanted - below) / here;
      }
      below += here;
    }
    return count_ == 0 ? 0 : bound(kBuckets - 1);
  }

 private:
  double first_bound_;
  std::array<uint64_t, kBuckets + 1> counts_{};
  uint64_t count_ = 0;
  double sum_ = 0;
};

}  // namespace kvik
