#pragma once

#include <memory>

#include "server/dialects/answer_writer.h"

namespace kvik {

// Answers of Anthropic's /v1/messages: one message of one or two blocks, thoughts first.
//
// usage: what was found in the cache is cache_read_input_tokens; what was computed is
// cache_creation_input_tokens up to the last mark of cache_control, and input_tokens behind it.
// The three make the prompt.
std::unique_ptr<AnswerWriter> make_messages_writer(AnswerEnvelope envelope);

}  // namespace kvik
