#pragma once

#include <span>
#include <string>

#include "study/bench/bench_report.h"

namespace kvik {

// Returns the roofline of this machine (Williams, Waterman and Patterson 2009) as an SVG document:
// operations per byte read against operations per second, both axes logarithmic, the measured
// ceilings as lines, each result as a point with its name. Follows the reader's light or dark color
// scheme.
std::string roofline_svg(std::span<const BenchResult> results, const MachineLimits& machine,
                         const std::string& title);

}  // namespace kvik
