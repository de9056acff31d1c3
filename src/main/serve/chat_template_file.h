#pragma once

#include <string>

#include "base/result.h"

namespace kvik {

// Reads and checks the chat template of --chat-template. Errors: kNotFound, kCorrupt (the template
// does not parse).
Result<std::string> read_chat_template(const std::string& path);

}  // namespace kvik
