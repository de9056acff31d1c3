#pragma once

#include <string>

#include "service/service_api.h"

namespace kvik {

// A view as one JSON object; times in milliseconds since `start`. What comes often is an array of
// numbers side by side:
//   steps: [number, end, ms, planned ms, prefill rows, decode rows, sequences] …
//   sequences: [id, phase (0 prefill, 1 decode, 2 ended), prompt, found, with K and V, generated,
//               at most to generate, last page or -1, age until now or its end in milliseconds] …
//   pages: [page, state (0 free, 1 leased, 2 sealed, 3 cached), group, owners, tokens,
//           parent or -1, taken, last used, tier (1: saved, 2: fetched)] …
//   histograms: first bound, count, sum, [bucket, values] … of those that are not empty
std::string live_json(const LiveView& view, const ModelCard& card, TimePoint start);

}  // namespace kvik
