#pragma once

#include <memory>

#include "server/dialects/answer_writer.h"

namespace kvik {

// Returns the writer of /completion and /infill, llama.cpp's own routes.
std::unique_ptr<AnswerWriter> make_native_writer(AnswerEnvelope envelope);

}  // namespace kvik
