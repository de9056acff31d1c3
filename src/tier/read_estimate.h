#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace kvik {

// How long a tier takes to read a page, by those that it read. An outlier hardly moves it. Whoever
// decides against reading says so: the estimate fades then, so that a tier that was slow for a
// while is asked again.
class ReadEstimate {
 public:
  void observe(double page_ms) {
    if (++n_observed_ > kTrusted) page_ms = std::min(page_ms, kOutlier * page_ms_);
    page_ms_ += std::max(kGain, 1.0 / n_observed_) * (page_ms - page_ms_);
  }
  void note_declined() { page_ms_ *= kFade; }
  // std::nullopt as long as too few pages were read.
  std::optional<double> page_ms() const {
    return n_observed_ < kTrusted ? std::nullopt : std::optional(page_ms_);
  }

 private:
  static constexpr uint32_t kTrusted = 8;  // pages
  static constexpr double kGain = 0.05;
  static constexpr double kOutlier = 2;
  static constexpr double kFade = 0.95;
  uint32_t n_observed_ = 0;
  double page_ms_ = 0;
};

}  // namespace kvik
