#pragma once

#include <optional>
#include <string>

#include "cli/chat_settings.h"
#include "cli/conversation.h"

namespace kvik {

// Of all answers of a chat.
struct ChatTotals {
  uint32_t n_answers = 0;
  uint64_t prompt_tokens = 0;
  uint64_t cached_tokens = 0;  // of them
  uint64_t completion_tokens = 0;
  uint64_t decoded_tokens = 0;  // all of an answer but the first, which the prompt's time brings
  Duration decode_time{};
  std::optional<Usage> last;

  void add(const Usage& usage);
};

// What a chat knows, and its commands show and change.
struct ChatState {
  Conversation conversation;
  ChatSettings settings;
  ChatSettings initial;  // what "default" means
  ChatTotals totals;
  SpokenTokens spoken = {};    // all until the last answer's end
  SpokenTokens asked = {};     // of them, all until its beginning
  uint32_t n_regenerated = 0;  // of the last answer: a fixed seed moves on by it

  // The conversation as a prompt.
  ChatRequest prompt() const;
};

// "TTFT 12.3 ms · 56 tokens, 210.4 tok/s · prompt 42 tokens, 30 of them cached"
std::string describe(const Usage& usage);
std::string describe(const ChatTotals& totals);

}  // namespace kvik
