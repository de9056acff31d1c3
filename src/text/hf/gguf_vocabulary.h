#pragma once

#include "base/metadata.h"
#include "base/result.h"

namespace kvik {

// What tokenizer.huggingface.* says, in the words that GGUF has for it: tokenizer.ggml.*, for
// programs that read no tokenizer.json. The two make the same ids of a text that tries both.
// Errors: those of Tokenizer::from_metadata(); kUnsupported where GGUF has no words for it.
Result<Metadata> gguf_vocabulary(const Metadata& folder);

}  // namespace kvik
