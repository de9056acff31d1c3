#pragma once

#include <boost/json/object.hpp>
#include <span>
#include <string>
#include <vector>

#include "service/experiment/cache_experiment.h"

namespace kvik {

// Returns the tokens of a run from `first` on: {"way", "first", "ms", "kv_rows", "kv_bytes"}, the
// last three with one number per token.
boost::json::object traced_tokens_json(const TracedRun& run, size_t first);

// Describes a finished experiment for `kvik explain` and POST /kvik/explain:
//   prompt, answer: {tokens, text, pieces}: the text that each token adds
//   runs: for each way {way, cached_tokens, queue_ms, ms, n_seen, kv_rows, kv_bytes, beside, fit,
//     late_fit}: ms is the least of all repeats; the fits are those of all tokens but the first,
//     and of the second half
//   repeats: how often all three ways were run
//   bits: {compared, different, equal}
boost::json::object experiment_json(const ServiceApi& service, const CacheExperiment& experiment);

// Returns {exponent, exponent_error, factor, r_squared, from, to, points}, or null.
boost::json::value fit_json(const std::optional<PowerFit>& fit);

}  // namespace kvik
