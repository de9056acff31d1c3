#pragma once

#include <string_view>

#include "service/service_api.h"
#include "text/tokenizer.h"

namespace kvik {

// Returns the tokens of a reranker's prompt, in which the texts replace "{query}" and "{document}".
// Special tokens are recognized in the prompt only, not in the texts.
PairPrompt make_pair_prompt(const Tokenizer& tokenizer, std::string_view prompt,
                            std::string_view query, std::string_view document);

}  // namespace kvik
