#pragma once

#include <string>

#include "service/service_api.h"

namespace kvik {

// Returns a view as one JSON object. Times are in milliseconds since `start`. Lists of records are
// flat arrays of numbers:
//   steps: [number, end, ms, planned ms, prefill rows, decode rows, sequences, draft tokens,
//           accepted draft tokens] …
//   sequences: [id, phase (0 prefill, 1 decode, 2 ended), prompt tokens, cached prompt tokens,
//               tokens with K/V, generated tokens, max_tokens, last page or -1,
//               age now or when it ended, in milliseconds] …
//   pages: [page, state (0 free, 1 leased, 2 sealed, 3 cached), group, owners, tokens,
//           parent or -1, time taken, time last used, tier (1: saved, 2: fetched)] …
//   histograms: {first bound, count, sum, [bucket, values] … of the buckets that are not empty}
std::string live_json(const LiveView& view, const ModelCard& card, TimePoint start);

}  // namespace kvik
