#pragma once

#include <span>
#include <string>

namespace kvik {

// Merges pages in Prometheus' text format into one: each metric has one HELP and one TYPE line,
// those of the first page that has it, and the samples of all pages.
std::string merge_metrics(std::span<const std::string> pages);

}  // namespace kvik
