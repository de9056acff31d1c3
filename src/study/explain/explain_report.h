#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "study/explain/explain_probes.h"

namespace kvik {

// The measurements of one run of `kvik explain` apart from the generation (experiment_json()).
struct ExplainFigures {
  MachineLimits machine;
  uint32_t n_threads = 0;
  std::string backend;
  PhaseTimes phases;
  uint32_t depth = 0;  // context in tokens at which types and shapes are compared
  std::vector<TypeTime> types;
  std::vector<ShapeTime> shapes;
  SharingTime sharing;
  MemoryTable memory;
};

// Returns a JSON object with machine, bench (with the fields of `kvik bench`), rows, types, shapes,
// sharing, memory.
boost::json::object figures_json(const ExplainFigures& figures);

// Returns the page built by tools/build_page.sh from web/explain.html with the report inserted, as
// one self-contained file.
std::string explain_html(std::string_view report_json);

}  // namespace kvik
