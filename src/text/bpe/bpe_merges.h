#pragma once

#include "base/metadata.h"
#include "base/result.h"
#include "text/bpe/token_joins.h"

namespace kvik {

struct Vocabulary;

// tokenizer.ggml.merges: a merge's place in the list is its rank.
// Errors: kCorrupt where the key is missing, a merge is not "left right", or either is no token.
// A merge whose result is no token is left out, as in llama.cpp.
Result<TokenJoins> read_merges(const Metadata& metadata, const Vocabulary& vocabulary);

}  // namespace kvik
