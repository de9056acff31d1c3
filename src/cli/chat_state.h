#pragma once

#include <optional>
#include <string>

#include "cli/chat_settings.h"
#include "cli/conversation.h"

namespace kvik {

// Totals over all answers of a chat.
struct ChatTotals {
  uint32_t n_answers = 0;
  uint64_t prompt_tokens = 0;
  uint64_t cached_tokens = 0;  // prompt tokens that were cached
  uint64_t completion_tokens = 0;
  // all tokens of an answer except the first; the time of the first is part of the prefill
  uint64_t decoded_tokens = 0;
  Duration decode_time{};
  std::optional<Usage> last;

  void add(const Usage& usage);
};

// The state of a chat, which its commands show and change.
struct ChatState {
  Conversation conversation;
  ChatSettings settings;
  ChatSettings initial;  // values of "default"
  ChatTotals totals;
  HistoryTokens history_tokens = {};  // tokens up to the end of the last answer
  HistoryTokens asked = {};           // tokens up to the beginning of the last answer
  // number of times the last answer was regenerated; added to a fixed seed
  uint32_t n_regenerated = 0;

  // Returns the conversation as a request for the next answer.
  ChatRequest prompt() const;
};

// "TTFT 12.3 ms · 56 tokens, 210.4 tok/s · prompt 42 tokens, 30 of them cached"
std::string describe(const Usage& usage);
std::string describe(const ChatTotals& totals);

}  // namespace kvik
