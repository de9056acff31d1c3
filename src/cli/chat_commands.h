#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/chat_state.h"
#include "cli/console.h"
#include "service/service_api.h"

namespace kvik {

// What a chat does after a command.
enum class AfterCommand { kRead, kRegenerate, kLeave };

// The lines that begin with a slash. Whatever is wrong with one is one sentence, and changes
// nothing.
class ChatCommands {
 public:
  // home: what "~/" in a file's name stands for; empty where nobody knows. All references are
  // borrowed and outlive this.
  ChatCommands(const ServiceApi& service, Console& console, ChatState& state, std::string home)
      : service_(service), console_(console), state_(state), home_(std::move(home)) {}

  // `line` begins with a slash.
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

  void print(std::string_view text);  // what was asked for
  void say(std::string_view text);    // that something was done
  AfterCommand refuse(std::string_view sentence);
  std::string expanded(std::string_view path) const;
  std::string describe_context() const;

  const ServiceApi& service_;
  Console& console_;
  ChatState& state_;
  const std::string home_;
};

// Every line that `typed` could become: commands, and the settings behind "/set ".
std::vector<std::string> completions(std::string_view typed);

}  // namespace kvik
