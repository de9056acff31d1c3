#pragma once

#include <memory>

#include "server/dialects/answer_writer.h"

namespace kvik {

// Answers of /v1/chat/completions: the first event of a choice brings the role, thoughts come as
// reasoning_content.
std::unique_ptr<AnswerWriter> make_chat_writer(AnswerEnvelope envelope);

}  // namespace kvik
