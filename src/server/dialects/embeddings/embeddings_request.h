#pragma once

#include <vector>

#include "base/result.h"
#include "server/dialects/request_body.h"
#include "service/service_api.h"

namespace kvik {

// A parsed body of POST /v1/embeddings.
struct EmbeddingsCall {
  enum class Encoding { kFloat, kBase64 };

  std::vector<EmbeddingRequest> requests;  // one per input, otherwise equal; at least one
  Encoding encoding = Encoding::kFloat;
};

// `input` is a text, token ids, texts, or lists of ids. A text gets the beginning-of-sequence
// token, special tokens in it are plain text, and it must not be empty. `pooling` ("mean", "last")
// is an extension. Errors: kInvalidArgument, with the field in `param`.
Result<EmbeddingsCall> parse_embeddings_call(const ServiceApi& service, const RequestBody& body);

}  // namespace kvik
