#pragma once

#include <map>
#include <span>
#include <string>

#include "server/completion_events.h"
#include "service/reasoning.h"

namespace kvik {

// The body of an answer of /v1/chat/completions that does not stream.
std::string chat_json(const CompletionEnvelope& envelope, std::span<const CompletionChoice> choices,
                      std::span<const Usage> usages);

// The events of one stream of it: the first of a choice brings the role, thoughts come as
// reasoning_content.
class ChatStream {
 public:
  // "data: …\n\n"; empty where the chunk has nothing to say yet.
  std::string event(const CompletionEnvelope& envelope, const CompletionChunk& chunk);

 private:
  std::map<uint32_t, ReasoningSplitter> splitters_;  // of the choices that have begun
};

}  // namespace kvik
