#pragma once

#include "base/result.h"
#include "service/embedding.h"
#include "service/service_api.h"
#include "text/tokenizer.h"

namespace kvik {

// Checks a request for an embedding, sets its pooling and what it wants from the engine, and cuts
// its prompt if it is too long and the request says so. Errors: kInvalidArgument.
Result<void> prepare_embedding(EmbeddingRequest& request, const Tokenizer& tokenizer,
                               const ModelCard& card);

}  // namespace kvik
