#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace kvik {

// Estimates the time that a tier takes to read a page from the times observed. Robust against
// outliers. A caller that decides not to read reports it: the estimate then fades, so that a tier
// that was slow for a while is tried again.
class ReadEstimate {
 public:
  void observe(double page_ms) {
    if (++n_observed_ > kTrusted) page_ms = std::min(page_ms, kOutlier * page_ms_);
    page_ms_ += std::max(kGain, 1.0 / n_observed_) * (page_ms - page_ms_);
  }
  void note_declined() { page_ms_ *= kFade; }
  // Returns std::nullopt until enough pages were read, or few that took long.
  std::optional<double> page_ms() const {
    const bool took_long = n_observed_ >= kFew && n_observed_ * page_ms_ >= kLongMs;
    return n_observed_ < kTrusted && !took_long ? std::nullopt : std::optional(page_ms_);
  }

 private:
  static constexpr uint32_t kTrusted = 8;  // pages
  static constexpr uint32_t kFew = 2;      // pages
  static constexpr double kLongMs = 250;   // for all of them together
  static constexpr double kGain = 0.05;
  static constexpr double kOutlier = 2;
  static constexpr double kFade = 0.95;
  uint32_t n_observed_ = 0;
  double page_ms_ = 0;
};

}  // namespace kvik
