#pragma once

#include <string>

#include "base/metadata.h"

namespace kvik {

// The vocabulary of tokenizer.ggml.* as the tokenizer.json that Hugging Face's library would read:
// the same ids for the same text, special tokens aside. Of control tokens it knows the names only
// where `specials` asks for them, since that library finds them in any text.
enum class Specials { kLeaveOut, kAdd };
std::string tokenizer_json(const Metadata& metadata, Specials specials);

}  // namespace kvik
