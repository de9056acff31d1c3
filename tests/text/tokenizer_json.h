#pragma once

#include <string>

#include "base/metadata.h"

namespace kvik {

// Returns the vocabulary of tokenizer.ggml.* as a tokenizer.json for Hugging Face's library. It
// gives the same ids for the same text, except for special tokens. Control tokens are included only
// if `specials` requests them, because that library recognizes them in any text.
enum class Specials { kLeaveOut, kAdd };
std::string tokenizer_json(const Metadata& metadata, Specials specials);

}  // namespace kvik
