#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/token_id.h"
#include "service/service.h"

namespace kvik {

// Contents of a file with a prompt.
enum class PromptFormat : uint8_t { kText, kChat, kMessages, kResponses };

// Returns the format that the flag --format names; empty: a text that begins with "{" is a chat.
PromptFormat prompt_format(std::string_view name, std::string_view content);

// Tokens that other prompts begin with.
struct SharedPrefix {
  std::vector<TokenId> tokens;
  // Ascending numbers of tokens up to places where other prompts may diverge; the last one is the
  // end.
  std::vector<uint32_t> ends;
};

// Returns the tokens that the service makes of a text, or of a body of POST /v1/chat/completions,
// /v1/messages or /v1/responses. If the last message is the user's, another question after the same
// messages diverges before it. If not, the prefix ends where the next question would begin.
// `path`: for errors. Errors: those of such a request.
Result<SharedPrefix> read_shared_prefix(const Service& service, PromptFormat format,
                                        std::string_view content, const std::string& path);

}  // namespace kvik
