#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/token_id.h"
#include "service/service_api.h"

namespace kvik {

// Another file of the project, shown before the one to fill in.
struct ContextFile {
  std::string_view name, text;
};

// The text around a gap.
struct MiddleGap {
  std::string_view prefix, suffix;
  std::string_view begun = {};  // begins the text in the gap
  std::span<const ContextFile> files = {};
};

// Returns a prompt in whose answer the model writes the text in the gap (Bavarian et al. 2022).
// Special tokens in the texts are plain text. Files are written as Qwen Coder reads repositories if
// the vocabulary has its tokens, otherwise before the prefix. Errors: kUnsupported with the field
// `param` if the vocabulary has no fill-in-the-middle tokens.
Result<std::vector<TokenId>> fill_in_middle_prompt(const ServiceApi& service, const MiddleGap& gap,
                                                   std::string_view param);

// Returns whether the vocabulary has fill-in-the-middle tokens.
bool can_fill_in_middle(const ServiceApi& service);

// Returns the token with which every text begins; std::nullopt if the vocabulary has none.
std::optional<TokenId> begin_token(const ServiceApi& service);

}  // namespace kvik
