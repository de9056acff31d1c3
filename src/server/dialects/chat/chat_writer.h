#pragma once

#include <memory>

#include "server/dialects/answer_writer.h"

namespace kvik {

// Returns the writer of /v1/chat/completions: the first event of a choice has the role, reasoning
// is reasoning_content.
std::unique_ptr<AnswerWriter> make_chat_writer(AnswerEnvelope envelope);

}  // namespace kvik
