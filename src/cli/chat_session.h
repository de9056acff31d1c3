#pragma once

#include <string>

#include "cli/answer.h"
#include "cli/chat_commands.h"
#include "cli/chat_input.h"
#include "cli/chat_state.h"
#include "cli/console.h"
#include "service/service_api.h"

namespace kvik {

// A chat: reads a message, has it answered, and remembers both.
//
//   read ──message──▶ answer ──▶ read        A message that no answer came to is taken back:
//     └────/command──▶ ChatCommands ──▶ read   what the conversation holds has always worked.
class ChatSession {
 public:
  struct Options {
    ChatSettings settings;
    std::string system;  // empty: none
    std::string home;    // of the user; empty where nobody knows
  };
  // Both are borrowed and outlive this.
  ChatSession(ServiceApi& service, Console& console, Options options);

  // Until the user leaves.
  void run();

 private:
  enum class Next { kRead, kLeave };
  Next handle(const std::string& input);
  Next regenerate();
  void greet();

  // Has the conversation, which ends with a user's message, answered. Whether the answer became a
  // part of it.
  enum class Outcome { kAnswered, kNothing, kLeave };
  Outcome answer();
  Outcome keep(const Answer& answer);
  void explain_refusal(const Error& error);

  ServiceApi& service_;
  Console& console_;
  ChatState state_;
  ChatCommands commands_;
  ChatInput input_;
};

}  // namespace kvik
