#pragma once

#include <vector>

#include "base/result.h"
#include "server/dialects/request_body.h"
#include "service/service_api.h"

namespace kvik {

// A body of POST /v1/embeddings.
struct EmbeddingsCall {
  enum class Encoding { kFloat, kBase64 };

  std::vector<EmbeddingRequest> requests;  // one for each input, alike in all else; at least one
  Encoding encoding = Encoding::kFloat;
};

// input is a text, token ids, texts, or lists of ids. A text gets the model's beginning, special
// tokens in it are plain text, and it may not be empty. `pooling` ("mean", "last") is ours.
// Errors: kInvalidArgument, with the field in `param`.
Result<EmbeddingsCall> parse_embeddings_call(const ServiceApi& service, const RequestBody& body);

}  // namespace kvik
