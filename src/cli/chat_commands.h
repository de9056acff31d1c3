#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/chat_state.h"
#include "cli/console.h"
#include "cli/generator.h"

namespace kvik {

// The action of a chat after a command.
enum class AfterCommand { kRead, kRegenerate, kLeave };

// Executes the commands of a chat, which are lines that begin with a slash. An invalid command
// prints one sentence and changes nothing.
class ChatCommands {
 public:
  // Borrows all references. home: the replacement of "~/" in file names; empty if unknown.
  ChatCommands(const Generator& generator, Console& console, ChatState& state, std::string home)
      : generator_(generator), console_(console), state_(state), home_(std::move(home)) {}

  // Executes a command. Requires a `line` that begins with a slash.
  AfterCommand run(std::string_view line);

 private:
  using Handler = AfterCommand (ChatCommands::*)(std::string_view arguments);
  struct Command {
    std::string_view name;
    std::string_view arguments;
    std::string_view help;
    Handler handler;
  };
  static const std::vector<Command>& table();
  static const Command* find(std::string_view name);

  AfterCommand help(std::string_view);
  AfterCommand set(std::string_view arguments);
  AfterCommand show(std::string_view);
  AfterCommand system(std::string_view text);
  AfterCommand save(std::string_view path);
  AfterCommand load(std::string_view path);
  AfterCommand clear(std::string_view);
  AfterCommand regenerate(std::string_view);
  AfterCommand stats(std::string_view);
  AfterCommand leave(std::string_view);

  void print(std::string_view text);  // prints requested output
  void say(std::string_view text);    // prints a confirmation
  AfterCommand refuse(std::string_view sentence);
  std::string expanded(std::string_view path) const;
  std::string describe_context() const;

  const Generator& generator_;
  Console& console_;
  ChatState& state_;
  const std::string home_;
};

// Returns the completions of `typed`: commands, and settings after "/set ".
std::vector<std::string> completions(std::string_view typed);

}  // namespace kvik
