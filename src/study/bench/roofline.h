#pragma once

#include <span>
#include <string>

#include "study/bench/bench_report.h"

namespace kvik {

// The roofline of this machine (Williams, Waterman and Patterson 2009) as an SVG document: both
// axes logarithmic, operations per byte read against operations per second, the measured ceilings
// as lines, each result as a point with its name. Follows the reader's light or dark scheme.
std::string roofline_svg(std::span<const BenchResult> results, const MachineLimits& machine,
                         const std::string& title);

}  // namespace kvik
