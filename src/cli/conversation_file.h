#pragma once

#include <string>

#include "base/result.h"
#include "cli/conversation.h"

namespace kvik {

// Conversations as JSON: {"model": …, "messages": [{"role": …, "content": …}, …]}, which is also a
// body that /v1/chat/completions takes.

// Whether a conversation lay there before.
enum class Saved { kNew, kReplaced };

// Whole or not at all: readers find the old file or the new one, also after a crash.
// kInvalidArgument where something lies there that is no conversation; kIo.
Result<Saved> save_conversation(const Conversation& conversation, const std::string& model,
                                const std::string& path);

// kNotFound, kIo, and kCorrupt where the file is no conversation.
Result<Conversation> load_conversation(const std::string& path);

}  // namespace kvik
