#pragma once

#include <string>

#include "cli/answer.h"
#include "cli/chat_commands.h"
#include "cli/chat_input.h"
#include "cli/chat_state.h"
#include "cli/console.h"
#include "cli/generator.h"

namespace kvik {

// A chat: reads a message, gets the answer, and stores both.
//
//   read ──message──▶ answer ──▶ read
//     └────/command──▶ ChatCommands ──▶ read
//
// A message without an answer is removed again, so the conversation contains only messages that the
// service accepted.
class ChatSession {
 public:
  struct Options {
    ChatSettings settings;
    std::string system;  // empty: none
    std::string home;    // home folder of the user; empty if unknown
  };
  // Borrows both.
  ChatSession(Generator& generator, Console& console, Options options);

  // Runs until the user leaves.
  void run();

 private:
  enum class Next { kRead, kLeave };
  Next handle(const std::string& input);
  Next regenerate();
  void greet();

  // Requests an answer to the conversation, which must end with a user message. kAnswered: the
  // answer was added to the conversation.
  enum class Outcome { kAnswered, kNothing, kLeave };
  Outcome answer();
  Outcome keep(const Answer& answer);
  void explain_refusal(const Error& error);

  Generator& generator_;
  Console& console_;
  ChatState state_;
  ChatCommands commands_;
  ChatInput input_;
};

}  // namespace kvik
