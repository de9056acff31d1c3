#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "text/hf/tokenizer_object.h"
#include "text/hf/word_model.h"
#include "text/vocabulary.h"

namespace kvik::hf {

// The model's tokens and the added ones in one table. Kinds: special ones are control tokens, other
// added ones user-defined, "<0x0A>" a byte where `byte_tokens` asks for it, ids between them
// unused. With `n_vocab` there are so many: added ones from there on are left out, and what is
// missing is unused.
enum class ByteTokens { kAreText, kAreBytes };
struct AllTokens {
  Vocabulary vocabulary;
  std::vector<TokenId> normalised;  // user-defined, to be looked for in the normalised text
};
Result<AllTokens> join_vocabularies(const JsonObject& file, const WordModel& model,
                                    ByteTokens byte_tokens, std::optional<uint32_t> n_vocab);

// What "post_processor" puts before and behind a text: bos, eos, adds_bos, adds_eos.
Result<void> read_frame(const JsonObject& file, Vocabulary& vocabulary);

}  // namespace kvik::hf
