#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "study/explain/explain_probes.h"

namespace kvik {

// What one run of `kvik explain` measured beside the generation (experiment_json()).
struct ExplainFigures {
  MachineLimits machine;
  uint32_t n_threads = 0;
  std::string backend;
  PhaseTimes phases;
  uint32_t depth = 0;  // of types and shapes
  std::vector<TypeTime> types;
  std::vector<ShapeTime> shapes;
  SharingTime sharing;
  MemoryTable memory;
};

// machine, bench (with the fields of `kvik bench`), rows, types, shapes, sharing, memory.
boost::json::object figures_json(const ExplainFigures& figures);

// The page that tools/build_page.sh made of web/explain.html, with the report inside, as one file
// that needs nothing else.
std::string explain_html(std::string_view report_json);

}  // namespace kvik
