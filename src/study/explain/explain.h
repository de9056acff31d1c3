#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "host/load_model.h"
#include "service/experiment/cache_experiment.h"

namespace kvik {

// The options of `kvik explain`.
struct ExplainOptions {
  ModelOptions model;
  std::optional<std::string> prompt;  // absent: a built-in one, at most half of the context
  // absent: as many as can be computed in some seconds without a cache
  std::optional<uint64_t> max_tokens;
};

// Returns a finished experiment as JSON in the format of POST /kvik/explain.
using DescribeExperiment =
    std::function<boost::json::object(const ServiceApi&, const CacheExperiment&)>;

// The results of `kvik explain`.
struct Explained {
  std::string json;      // all measurements as one JSON object
  std::string summary;   // a short summary
  bool is_equal = true;  // whether the answers with and without cache are equal
};

// Measures one generation with and without the cache, and the cost of the parts of a model on this
// machine.
Result<Explained> explain(const ExplainOptions& options, const DescribeExperiment& describe);

}  // namespace kvik
