#pragma once

#include "base/metadata.h"

namespace kvik {

// Vocabularies of kinds without a real one at hand, derived from one that exists: as large as real
// ones, with the same words. For benchmarks and comparisons.

// Converts a "llama" vocabulary to "t5" (Unigram): a token's score decreases with its id.
Metadata as_unigram(const Metadata& llama);

// Converts a "llama" vocabulary to "gemma4": its joins become merges.
Metadata as_gemma4(const Metadata& llama);

// Converts a "gpt2" vocabulary to "bert" (WordPiece) in lower case.
Metadata as_word_piece(const Metadata& gpt2);

}  // namespace kvik
