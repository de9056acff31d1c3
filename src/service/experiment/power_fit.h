#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace kvik {

// y = factor · x^exponent, as a straight line through the logarithms by least squares.
struct PowerFit {
  double exponent = 0;
  double exponent_error = 0;  // standard error
  double factor = 0;
  double r_squared = 0;  // share of the logarithms' variance that the line explains
  double x_min = 0, x_max = 0;
  size_t n_points = 0;

  double at(double x) const;
};

// Points with x or y at 0 or below have no logarithm and are left out. std::nullopt where fewer
// than three points are left, or all stand at one x. x and y are equally long.
std::optional<PowerFit> fit_power(std::span<const double> x, std::span<const double> y);

}  // namespace kvik
