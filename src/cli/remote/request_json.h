#pragma once

#include <string>

#include "service/service_api.h"

namespace kvik {

// Returns the body of POST /v1/chat/completions for a streamed answer. Only texts of messages are
// sent: a chat in the terminal has nothing else.
std::string chat_body(const std::string& model, const ChatRequest& chat,
                      const CompletionRequest& request);

// Returns the body of POST /v1/completions for a streamed answer.
std::string completion_body(const std::string& model, const CompletionRequest& request);

// Returns the body of POST /tokenize for a conversation.
std::string count_body(const std::string& model, const ChatRequest& chat);

}  // namespace kvik
