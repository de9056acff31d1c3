#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "server/dialects/json_fields.h"
#include "server/dialects/request_body.h"
#include "service/service_api.h"

namespace kvik {

// A parsed body of POST /v1/embeddings.
struct EmbeddingsCall {
  enum class Encoding { kFloat, kBase64 };

  std::vector<EmbeddingRequest> requests;  // one per input, otherwise equal; at least one
  Encoding encoding = Encoding::kFloat;
};

// Reads a count of at least 1. Errors: kInvalidArgument.
Result<std::optional<uint32_t>> read_positive(const JsonFields& fields, std::string_view name);

// Reads `truncate` (TEI) and `truncate_prompt_tokens` (vLLM) for EmbeddingRequest::truncate_to.
Result<std::optional<uint32_t>> read_truncation(const JsonFields& fields);

// `input` is a text, token ids, texts, or lists of ids. A text gets the beginning-of-sequence
// token, special tokens in it are plain text, and it must not be empty. `pooling` ("mean",
// "cls", "last", "rank"), `embd_normalize`, `normalize`, `truncate` and `truncate_prompt_tokens`
// are extensions. Errors: kInvalidArgument, with the field in `param`.
Result<EmbeddingsCall> parse_embeddings_call(const ServiceApi& service, const RequestBody& body);

}  // namespace kvik
