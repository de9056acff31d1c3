#pragma once

#include <memory>

#include "server/dialects/answer_writer.h"

namespace kvik {

// Returns the writer of Anthropic's /v1/messages: one message of blocks, reasoning first.
//
// Usage: cached prompt tokens are cache_read_input_tokens; computed ones are
// cache_creation_input_tokens up to the last cache_control mark, and input_tokens after it. Their
// sum is the prompt.
std::unique_ptr<AnswerWriter> make_messages_writer(AnswerEnvelope envelope);

}  // namespace kvik
