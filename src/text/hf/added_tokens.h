#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "text/hf/tokenizer_object.h"
#include "text/hf/word_model.h"
#include "text/vocabulary.h"

namespace kvik::hf {

// The tokens of the model and the added tokens in one table. Special tokens are control tokens,
// other added tokens are user-defined, "<0x0A>" is a byte token if `byte_tokens` says so, and ids
// without a token are unused. If `n_vocab` is given, the table has that size: added tokens beyond
// it are dropped, and missing ones are unused.
// The meaning of tokens such as "<0x0A>": text or a byte.
enum class ByteTokens { kAreText, kAreBytes };
struct AllTokens {
  Vocabulary vocabulary;
  std::vector<TokenId> normalized;  // user-defined tokens to be found in the normalized text
};
Result<AllTokens> join_vocabularies(const JsonObject& file, const WordModel& model,
                                    ByteTokens byte_tokens, std::optional<uint32_t> n_vocab);

// Reads which tokens "post_processor" adds before and after a text: bos, eos, adds_bos, adds_eos.
Result<void> read_frame(const JsonObject& file, Vocabulary& vocabulary);

}  // namespace kvik::hf
