#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace kvik {

// A power law y = factor · x^exponent, fitted as a straight line through the logarithms by least
// squares.
struct PowerFit {
  double exponent = 0;
  double exponent_error = 0;  // standard error
  double factor = 0;
  double r_squared = 0;  // share of the variance of log y that the line explains
  double x_min = 0, x_max = 0;
  size_t n_points = 0;

  double at(double x) const;
};

// Fits a power law. Points with x <= 0 or y <= 0 have no logarithm and are ignored. Returns nullopt
// if fewer than three points remain or if all have the same x. Requires x and y to have the same
// length.
std::optional<PowerFit> fit_power(std::span<const double> x, std::span<const double> y);

}  // namespace kvik
