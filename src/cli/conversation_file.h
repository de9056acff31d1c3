#pragma once

#include <string>

#include "base/result.h"
#include "cli/conversation.h"

namespace kvik {

// Conversations are stored as JSON: {"model": …, "messages": [{"role": …, "content": …}, …]}. The
// file is also a valid request body for /v1/chat/completions.

// The result of saving: a new file, or a replaced conversation.
enum class Saved { kNew, kReplaced };

// Saves the conversation atomically: readers see the old file or the new one, even after a crash.
// Errors: kInvalidArgument if the file exists and is not a conversation; kIo.
Result<Saved> save_conversation(const Conversation& conversation, const std::string& model,
                                const std::string& path);

// Loads a conversation. Errors: kNotFound, kIo, kCorrupt if the file is not a conversation.
Result<Conversation> load_conversation(const std::string& path);

}  // namespace kvik
