#include "main/flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <utility>

#include "base/quantity.h"
#include "main/environment.h"
#include "main/exit_code.h"

namespace kvik {
namespace {

template <class Target, class Value>
Words words(const char* type, Target& target, Result<Value> (*parse)(std::string_view)) {
  return {.type = type, .read = [&target, parse](const std::string& text) {
            const auto value = parse(text);
            if (value) target = *value;
            return value ? std::string() : value.error().message;
          }};
}

CLI::Option* add_target(CLI::App& app, const Flag& flag) {
  return std::visit(
      [&](const auto& to) -> CLI::Option* {
        using To = std::decay_t<decltype(to)>;
        if constexpr (std::is_same_v<To, Words>) {
          const auto set = [read = to.read](const std::string& text) { read(text); };
          return app.add_option_function<std::string>(flag.name, set, flag.help)
              ->check(to.read)
              ->type_name(to.type);
        } else if constexpr (std::is_same_v<To, bool*>) {
          return app.add_flag(flag.name, *to, flag.help);
        } else {
          return app.add_option(flag.name, *to, flag.help);
        }
      },
      flag.to);
}

void add_bounds(CLI::Option& option, const Flag::Bounds& bounds) {
  std::visit(
      [&](const auto& b) {
        if constexpr (!std::is_same_v<std::decay_t<decltype(b)>, std::monostate>) {
          option.check(CLI::Range(b.least, b.most));
        }
      },
      bounds);
}

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
    const auto is_word = [&](const char* dashes) {
      return [&word, dashes](const std::string& name) { return word == dashes + name; };
    };
    return std::ranges::any_of(option.get_lnames(), is_word("--")) ||
           std::ranges::any_of(option.get_snames(), is_word("-"));
  });
}

// The command line with the environment behind it: KVIK_MAX_TOKENS=9 becomes --max-tokens=9 where
// the program or the subcommand has that flag and the line does not.
std::vector<std::string> with_environment(const CLI::App& app, const CLI::App& command,
                                          std::vector<std::string> arguments) {
  const std::vector<std::string> given = arguments;
  for (const CLI::App* owner : {&app, &command}) {
    for (const CLI::Option* option : owner->get_options()) {
      if (option->get_lnames().empty() || option->get_expected_max() == 0) continue;
      const std::string value = environment(variable_of(option->get_lnames().front()));
      if (value.empty() || gives(given, *option)) continue;
      arguments.push_back("--" + option->get_lnames().front() + "=" + value);
    }
  }
  return arguments;
}

}  // namespace

Words as_count(uint64_t& value) { return words("N", value, parse_count); }
Words as_count(std::optional<uint64_t>& value) { return words("N", value, parse_count); }
Words as_counts(std::vector<uint64_t>& values) { return words("N,…", values, parse_counts); }
Words as_bytes(uint64_t& value) { return words("SIZE", value, parse_bytes); }
Words as_duration(Duration& value) { return words("TIME", value, parse_duration); }

Words as_text(std::optional<std::string>& value) {
  return {.type = "TEXT", .read = [&value](const std::string& text) {
            value = text;
            return std::string();
          }};
}

void Flags::add(const Flag& flag) {
  CLI::Option& option = *add_target(*app_, flag);
  add_bounds(option, flag.bounds);
  if (!flag.choices.empty()) option.check(CLI::IsMember(flag.choices));
  if (!flag.called_type.empty()) option.type_name(flag.called_type);
  if (flag.shows_default) option.capture_default_str();
  option.required(flag.is_required);
}

void Flags::add(std::initializer_list<Flag> flags) {
  for (const Flag& flag : flags) add(flag);
}

void Flags::describe(const std::string& name, const std::string& help) {
  app_->get_option(name)->description(help);
}

void Flags::exclude(const std::string& name, std::initializer_list<std::string> others) {
  for (const std::string& other : others) {
    app_->get_option(name)->excludes(app_->get_option(other));
  }
}

void Flags::end_with(const std::string& text) { app_->footer(text); }

CommandLine::CommandLine(const std::string& name, const std::string& help,
                         const std::string& version)
    : app_(std::make_unique<CLI::App>(help, name)) {
  app_->set_version_flag("--version", version);
  app_->set_config("--config", "", "read flags from this file; each command has a [section]");
  app_->require_subcommand(1);
  app_->fallthrough();
}

CommandLine::~CommandLine() = default;

Flags CommandLine::add(const std::string& name, const std::string& help, Command run) {
  return add(Flags(*app_), name, help, std::move(run));
}

Flags CommandLine::add(const Flags& parent, const std::string& name, const std::string& help,
                       Command run) {
  parent.app_->require_subcommand(1);
  CLI::App* command = parent.app_->add_subcommand(name, help);
  commands_.emplace_back(command, std::move(run));
  return Flags(*command);
}

int CommandLine::run(std::vector<std::string> arguments) {
  const std::string first = arguments.empty() ? "" : arguments[0];
  const auto named = std::as_const(*app_).get_subcommands(
      [&](const CLI::App* command) { return command->get_name() == first; });
  if (!named.empty()) {
    arguments = with_environment(*app_, *named.front(), std::move(arguments));
  } else if (!arguments.empty() && !first.starts_with('-')) {
    return report({.code = ErrorCode::kInvalidArgument,
                   .message = fmt::format("'{}' is no command; kvik --help lists them", first)});
  }
  std::ranges::reverse(arguments);  // CLI11 takes them from the back
  try {
    app_->parse(std::move(arguments));
  } catch (const CLI::Success& wanted) {  // --help, --version
    return app_->exit(wanted);
  } catch (const CLI::ParseError& error) {
    return report({.code = ErrorCode::kInvalidArgument, .message = error.what()});
  }
  const CLI::App* chosen = app_.get();
  while (!chosen->get_subcommands().empty()) chosen = chosen->get_subcommands().front();
  return std::ranges::find(commands_, chosen, [](const auto& c) { return c.first; })->second();
}

}  // namespace kvik
