#pragma once

#include <memory>

#include "server/dialects/answer_writer.h"

namespace kvik {

// Returns the writer of /v1/completions.
std::unique_ptr<AnswerWriter> make_completions_writer(AnswerEnvelope envelope);

}  // namespace kvik
