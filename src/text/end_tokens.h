#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "base/token_id.h"

namespace kvik {

struct Vocabulary;

// The tokens that end an answer: those that the file names, then control tokens with a name that
// chat formats are known to end a turn with, because files often name only one of them. No
// duplicates.
std::vector<TokenId> find_end_tokens(const Vocabulary& vocabulary,
                                     std::initializer_list<std::optional<TokenId>> named);

}  // namespace kvik
