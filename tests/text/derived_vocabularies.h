#pragma once

#include "base/metadata.h"

namespace kvik {

// Vocabularies of kinds of which no real one lies at hand, made of one that does: as large as real
// ones, of the same words. For benchmarks and comparisons.

// A "llama" vocabulary as "t5" (Unigram): a token's score falls with its number.
Metadata as_unigram(const Metadata& llama);

// A "llama" vocabulary as "gemma4": its joins written out as merges.
Metadata as_gemma4(const Metadata& llama);

// A "gpt2" vocabulary as "bert" (WordPiece), in small letters.
Metadata as_word_piece(const Metadata& gpt2);

}  // namespace kvik
