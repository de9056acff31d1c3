#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/dialects/embeddings/embeddings_request.h"
#include "server/dialects/request_body.h"
#include "service/service_api.h"

namespace kvik {

// Pairs of texts for a model's classifier: one request per pair, in the order of the documents.
struct ScoreCall {
  EmbeddingsCall call;
  bool is_raw = false;  // scores are the classifier's numbers; otherwise they are in 0 to 1
};

// A parsed body of /v1/rerank.
struct RerankCall {
  ScoreCall scores;
  std::vector<std::string> documents;  // to be returned; empty if they are not wanted
  std::optional<uint32_t> top_n;       // absent: all
  bool is_list = false;  // the answer is a bare list, because the documents were `texts` (TEI)
};

// `query`, and `documents` (texts, or objects with `text`) or `texts` (TEI); `top_n`,
// `return_documents` (`return_text`), `raw_scores`, `truncate`, `truncate_prompt_tokens`. Errors:
// kInvalidArgument, with the field in `param`.
Result<RerankCall> parse_rerank_call(const ServiceApi& service, const RequestBody& body);

// `text_1` and `text_2` (or `queries` and `documents`), each a text or texts: as many of both, or
// one of the first for all of the second. Errors as above.
Result<ScoreCall> parse_score_call(const ServiceApi& service, const RequestBody& body);

}  // namespace kvik
