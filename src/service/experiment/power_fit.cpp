#include "service/experiment/power_fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace kvik {

double PowerFit::at(double x) const { return factor * std::pow(x, exponent); }

std::optional<PowerFit> fit_power(std::span<const double> x, std::span<const double> y) {
  CHECK(x.size() == y.size());
  std::vector<double> u, v;  // logarithms
  for (size_t i = 0; i < x.size(); ++i) {
    if (!(x[i] > 0) || !(y[i] > 0)) continue;
    u.push_back(std::log(x[i]));
    v.push_back(std::log(y[i]));
  }
  const auto n = static_cast<double>(u.size());
  if (u.size() < 3) return std::nullopt;
  double u_mean = 0, v_mean = 0;
  for (size_t i = 0; i < u.size(); ++i) {
    u_mean += u[i] / n;
    v_mean += v[i] / n;
  }
  double uu = 0, uv = 0, vv = 0;
  for (size_t i = 0; i < u.size(); ++i) {
    uu += (u[i] - u_mean) * (u[i] - u_mean);
    uv += (u[i] - u_mean) * (v[i] - v_mean);
    vv += (v[i] - v_mean) * (v[i] - v_mean);
  }
  if (uu <= 0) return std::nullopt;
  const double slope = uv / uu;
  const double unexplained = std::max(0.0, vv - slope * uv);
  const auto [low, high] = std::ranges::minmax(u);
  return PowerFit{.exponent = slope,
                  .exponent_error = std::sqrt(unexplained / (n - 2) / uu),
                  .factor = std::exp(v_mean - slope * u_mean),
                  .r_squared = vv > 0 ? 1 - unexplained / vv : 1,
                  .x_min = std::exp(low),
                  .x_max = std::exp(high),
                  .n_points = u.size()};
}

}  // namespace kvik
