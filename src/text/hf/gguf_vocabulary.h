#pragma once

#include "base/metadata.h"
#include "base/result.h"

namespace kvik {

// Converts tokenizer.huggingface.* to GGUF's tokenizer.ggml.*, for programs that do not read
// tokenizer.json. Verifies with sample texts that both give the same ids.
//
// Errors: those of Tokenizer::from_metadata(); kUnsupported if GGUF cannot express the tokenizer.
Result<Metadata> gguf_vocabulary(const Metadata& folder);

}  // namespace kvik
