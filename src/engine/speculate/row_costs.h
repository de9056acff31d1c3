#pragma once

#include <array>
#include <cstdint>

namespace kvik {

// The time of a decoding step as a function of its number of rows. The weights are read once for
// all rows, so a few rows take little longer than one. Learned separately for each row count,
// because the time of kernels with few rows is not linear.
//
// The minimum of the first few observations of a row count is used. Each later one changes the
// value by a few percent at most, so an outlier has little effect, and all values by a little,
// because other load slows all row counts. A row count that was not observed, or not for a few
// hundred steps, is interpolated. Beyond the largest observed count each row costs as much as a
// prompt row. Engine thread only.
class RowCosts {
 public:
  static constexpr uint32_t kMaxRows = 128;

  // Takes the time of a step without prompts. Row counts beyond kMaxRows are ignored.
  void observe(uint32_t n_rows, double ms);

  // Returns the time of a step of n_rows, or 0 before the first observation. prompt_row_ms is the
  // time of one row in a step of many rows, or 0 if it is unknown.
  double ms(uint32_t n_rows, double prompt_row_ms) const;

 private:
  struct Known {
    double ms = 0;
    uint32_t n_observed = 0;
    uint64_t last = 0;  // value of n_observed_ at its last observation
  };
  double row_ms(double prompt_row_ms) const;

  std::array<Known, kMaxRows + 1> known_{};
  uint64_t n_observed_ = 0;
};

}  // namespace kvik
