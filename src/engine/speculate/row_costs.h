#pragma once

#include <array>
#include <cstdint>

namespace kvik {

// What a step takes by how many rows it computes, in which nothing but decoding is done: the
// weights are read once for all of them, so a few rows take little more than one. Learned from the
// steps that were, number by number: no straight line fits what kernels do of few rows.
//
// Of the first observations the least is taken; one more moves what is known of its number by a few
// percent at most, so that an outlier says little, and all numbers a little: a machine that others
// slow down slows all of them. What was never observed, or not for a few hundred steps, is taken to
// lie between its neighbours, and beyond the last one each row to cost what a row of a prompt does.
// Engine thread only.
class RowCosts {
 public:
  static constexpr uint32_t kMostRows = 128;

  void observe(uint32_t n_rows, double ms);

  // Of a step of n_rows; prompt_row_ms: what a row costs where many are computed, 0 where that is
  // not known. 0 before the first observation.
  double ms(uint32_t n_rows, double prompt_row_ms) const;

 private:
  struct Known {
    double ms = 0;
    uint32_t n_observed = 0;
    uint64_t last = 0;  // observation of all
  };
  double row_ms(double prompt_row_ms) const;

  std::array<Known, kMostRows + 1> known_{};
  uint64_t n_observed_ = 0;
};

}  // namespace kvik
