#include "main/environment.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace kvik {
namespace {

std::string variable_of(const std::string& flag) {
  std::string name = "KVIK_";
  for (const char c : flag) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

bool gives(const std::vector<std::string>& arguments, const CLI::Option& option) {
  return std::ranges::any_of(arguments, [&](const std::string& argument) {
    const std::string word = argument.substr(0, argument.find('='));
    for (const std::string& name : option.get_lnames()) {
      if (word == "--" + name) return true;
    }
    for (const std::string& name : option.get_snames()) {
      if (word == "-" + name) return true;
    }
    return false;
  });
}

}  // namespace

std::string environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value ? value : "";
}

std::vector<std::string> with_environment(const CLI::App& app, std::vector<std::string> arguments) {
  if (arguments.empty()) return arguments;
  const auto commands = app.get_subcommands(
      [&](const CLI::App* command) { return command->get_name() == arguments.front(); });
  if (commands.empty()) return arguments;
  const std::vector<std::string> given = arguments;
  for (const CLI::App* owner : {&app, static_cast<const CLI::App*>(commands.front())}) {
    for (const CLI::Option* option : owner->get_options()) {
      if (option->get_lnames().empty() || option->get_expected_max() == 0) continue;
      const std::string value = environment(variable_of(option->get_lnames().front()));
      if (value.empty() || gives(given, *option)) continue;
      arguments.push_back("--" + option->get_lnames().front() + "=" + value);
    }
  }
  return arguments;
}

}  // namespace kvik
