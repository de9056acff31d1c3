#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/token_id.h"
#include "service/service_api.h"

namespace kvik {

// Returns a prompt in whose answer the model writes the text between `prefix` and `suffix`, or
// std::nullopt if its vocabulary has no fill-in-the-middle tokens (Bavarian et al. 2022). Special
// tokens in the texts are plain text.
std::optional<std::vector<TokenId>> fill_in_middle_prompt(const ServiceApi& service,
                                                          std::string_view prefix,
                                                          std::string_view suffix);

// Returns the token with which every text begins; std::nullopt if the vocabulary has none.
std::optional<TokenId> begin_token(const ServiceApi& service);

}  // namespace kvik
