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

struct ExplainOptions {
  ModelOptions model;
  std::optional<std::string> prompt;   // absent: a long one, cut to half of a short context
  std::optional<uint64_t> max_tokens;  // absent: as many as some seconds without a cache allow
};

// A finished experiment in the words of POST /kvik/explain.
using DescribeExperiment =
    std::function<boost::json::object(const ServiceApi&, const CacheExperiment&)>;

struct Explained {
  std::string json;      // all that was measured, as one object
  std::string summary;   // a few lines of it
  bool is_equal = true;  // the cache did not change the answer
};

// One generation with the cache and without it, and what the parts of a model cost here.
Result<Explained> explain(const ExplainOptions& options, const DescribeExperiment& describe);

}  // namespace kvik
