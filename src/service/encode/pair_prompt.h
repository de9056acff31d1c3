#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "service/service_api.h"
#include "text/tokenizer.h"

namespace kvik {

// Returns the tokens of a reranker's prompt for each document. The texts replace "{query}" and
// "{document}"; special tokens are recognized in the prompt only, not in the texts.
std::vector<PairPrompt> make_pair_prompts(const Tokenizer& tokenizer, std::string_view prompt,
                                          std::string_view query,
                                          std::span<const std::string_view> documents);

}  // namespace kvik
