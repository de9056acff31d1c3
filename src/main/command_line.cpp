#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <sstream>
#include <utility>

#include "base/result.h"
#include "base/text/nearest_name.h"
#include "cli/foreign_flags.h"
#include "main/environment.h"
#include "main/exit_code.h"
#include "main/flags.h"
#include "main/models/model_argument.h"
#include "main/translate_arguments.h"

// Parses a command line into a command and its flags.
namespace kvik {
namespace {

std::string variable_of(const std::string& flag) {
  std::string name = "KVIK_";
  for (const char c : flag) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

// Returns the flag's name in an argument: "--ctx" of "--ctx=5", "-p" of "-ptext". Empty if the
// argument is not a flag.
std::string_view flag_word(const std::string& argument) {
  if (argument.starts_with("--")) return {argument.begin(), std::ranges::find(argument, '=')};
  const bool is_flag = argument.size() > 1 && argument[0] == '-' && argument[1] != '.' &&
                       std::isdigit(static_cast<unsigned char>(argument[1])) == 0;
  return is_flag ? std::string_view(argument).substr(0, 2) : std::string_view();
}

bool is_called(const CLI::Option& option, std::string_view word) {
  const auto is_name = [&](const char* dashes) {
    return [word, dashes](const std::string& name) { return word == dashes + name; };
  };
  return std::ranges::any_of(option.get_lnames(), is_name("--")) ||
         std::ranges::any_of(option.get_snames(), is_name("-"));
}

// Words after "--" are not flags.
bool gives(const std::vector<std::string>& arguments, const CLI::Option& option) {
  return std::any_of(
      arguments.begin(), std::ranges::find(arguments, "--"),
      [&](const std::string& argument) { return is_called(option, flag_word(argument)); });
}

// Finds a flag of the command or of one of its parents.
const CLI::Option* find_option(const CLI::App& app, std::string_view word) {
  for (const CLI::App* owner = &app; owner != nullptr; owner = owner->get_parent()) {
    for (const CLI::Option* option : owner->get_options()) {
      if (is_called(*option, word)) return option;
    }
  }
  return nullptr;
}

// Returns the name if the argument is a multi-letter short flag such as "-ctk": a flag of another
// program, or letters after a flag that takes no text. Returns an empty text otherwise; text may
// follow a flag that takes it: "-pTEXT".
std::string_view unknown_short_flag(const std::string& argument, const CLI::Option* option) {
  const std::string_view whole(argument.begin(), std::ranges::find(argument, '='));
  const bool is_short = whole.size() > 2 && whole[0] == '-' && whole[1] != '-';
  if (!is_short || flag_word(argument).empty()) return {};
  if (!advice_on_flag(whole).empty()) return whole;
  const bool has_letter = std::isalpha(static_cast<unsigned char>(whole[2])) != 0;
  const bool takes_text =
      option != nullptr && option->get_expected_max() > 0 && option->get_type_name() != "N";
  return has_letter && !takes_text ? whole : std::string_view();
}

// The command of a line, its position, and the first unknown flag.
struct Line {
  const CLI::App* command;        // innermost named command; the program itself if there is none
  std::optional<size_t> at = {};  // index of the command
  std::string first_word = {};    // first argument that is not a flag; empty: none
  std::string unknown_flag = {};  // first unknown flag; empty: none
};

Line read_line(const CLI::App& program, const std::vector<std::string>& arguments) {
  Line line{.command = &program};
  for (size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    const std::string& argument = arguments[i];
    const std::string_view word = flag_word(argument);
    if (word.empty()) {
      if (line.first_word.empty()) line.first_word = argument;
      const auto named = line.command->get_subcommands(
          [&](const CLI::App* command) { return command->get_name() == argument; });
      if (named.empty()) continue;
      line.at = i;
      line.command = named.front();
      continue;
    }
    const CLI::Option* const option = find_option(*line.command, word);
    const std::string_view foreign = unknown_short_flag(argument, option);
    const bool is_unknown = option == nullptr || !foreign.empty();
    if (is_unknown && line.unknown_flag.empty()) {
      line.unknown_flag = foreign.empty() ? word : foreign;
    }
    const bool has_next_value =
        option != nullptr && option->get_expected_max() > 0 && argument.size() == word.size();
    if (has_next_value) ++i;
  }
  return line;
}

// Parses the variable of a flag that takes no value.
Result<bool> read_switch(const std::string& variable, std::string value) {
  constexpr std::array<std::string_view, 4> kOn = {"1", "true", "yes", "on"};
  constexpr std::array<std::string_view, 4> kOff = {"0", "false", "no", "off"};
  for (char& c : value) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (std::ranges::count(kOn, value) > 0) return true;
  if (std::ranges::count(kOff, value) > 0) return false;
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{} is '{}', expected 1 or 0", variable, value));
}

// Returns the command line with flags from the environment inserted after the command:
// KVIK_MAX_TOKENS=9 becomes --max-tokens=9 if the program or the command has that flag and the
// command line does not give it. KVIK_NO_CACHE=1 becomes --no-cache=true. Errors: kInvalidArgument
// for a flag without a value whose variable is neither on nor off.
Result<std::vector<std::string>> with_environment(const CLI::App& app, const Line& line,
                                                  std::vector<std::string> arguments) {
  std::vector<std::string> more;
  for (const CLI::App* owner : {&app, line.command}) {
    for (const CLI::Option* option : owner->get_options()) {
      const bool is_switch = option->get_expected_max() == 0;
      if (option->get_lnames().empty()) continue;
      if (is_switch && !option->get_configurable()) continue;  // --help, --version
      if (option->get_positional()) continue;                  // KVIK_MODEL would be a second MODEL
      const std::string variable = variable_of(option->get_lnames().front());
      std::string value = environment(variable);
      if (value.empty() || gives(arguments, *option)) continue;
      if (is_switch) {
        TRY_ASSIGN(const bool is_on, read_switch(variable, std::move(value)));
        value = is_on ? "true" : "false";
      }
      more.push_back(fmt::format("--{}={}", option->get_lnames().front(), value));
    }
  }
  arguments.insert(arguments.begin() + static_cast<ptrdiff_t>(*line.at) + 1, more.begin(),
                   more.end());
  return arguments;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command :
       app.get_subcommands([](const CLI::App* command) { return !command->get_name().empty(); })) {
    names.push_back(command->get_name());
  }
  return names;
}

// Returns "; do this" or "; did you mean that?", or an empty text.
std::string hint(std::string_view advice, std::string_view word,
                 const std::vector<std::string>& names) {
  return advice.empty() ? did_you_mean(word, names) : fmt::format("; {}", advice);
}

// Returns the full name of a command, such as "kvik adapter show".
std::string name_of(const CLI::App& command) {
  const CLI::App* const above = command.get_parent();
  return above ? fmt::format("{} {}", name_of(*above), command.get_name()) : command.get_name();
}

std::vector<std::string> flag_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* owner = &command; owner != nullptr; owner = owner->get_parent()) {
    for (const CLI::Option* option : owner->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  return names;
}

// Returns a message for a key of the config file that no flag has, such as "run.max-token".
std::string describe_unknown_key(const CLI::App& program, std::string_view key) {
  const CLI::App* command = &program;
  for (size_t dot = key.find('.'); dot != key.npos; dot = key.find('.')) {
    const std::string section(key.substr(0, dot));
    const auto named = command->get_subcommands(
        [&](const CLI::App* candidate) { return candidate->get_name() == section; });
    if (named.empty()) {
      return fmt::format("unknown section [{}]{}; sections are named like commands", section,
                         did_you_mean(section, command_names(*command)));
    }
    command = named.front();
    key.remove_prefix(dot + 1);
  }
  std::vector<std::string> known;
  for (const std::string& flag : flag_names(*command)) known.push_back(flag.substr(2));
  if (command == &program) {
    return fmt::format(
        "unknown key {} outside of a section, expected it in the section of a "
        "command, such as [serve]",
        key);
  }
  std::string section = name_of(*command).substr(name_of(program).size() + 1);
  std::ranges::replace(section, ' ', '.');
  return fmt::format("unknown key {} in [{}]{}; {} --help lists the flags", key, section,
                     did_you_mean(key, known), name_of(*command));
}

// Returns a message for an error of the config file. The library names a key that it does not know
// at the end of its message.
std::string describe_config(const CLI::App& program, const CLI::ConfigError& error) {
  const std::string_view message = error.what();
  const std::string mark = CLI::ConfigError::Extras("").what();
  return message.starts_with(mark) ? describe_unknown_key(program, message.substr(mark.size()))
                                   : std::string(message);
}

// Returns a message such as "kvik adapter show needs MODEL and ADAPTER; 1 of 2 is given" if
// positional arguments are missing, otherwise the library's message.
std::string describe_missing(const CLI::App& command, const CLI::RequiredError& error) {
  std::vector<std::string> needed;
  size_t n_given = 0;
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_required() || !option->get_positional()) continue;
    needed.push_back(option->get_name(true));
    if (option->count() > 0) ++n_given;
  }
  if (n_given == needed.size()) return error.what();
  const std::string needs =
      fmt::format("{} needs {}", name_of(command), fmt::join(needed, " and "));
  if (n_given == 0) return needs;
  return fmt::format("{}; {} of {} is given", needs, n_given, needed.size());
}

// Reads a config file, and takes the sections [models.NAME] out of it: the library would look for a
// command of that name.
class ConfigReader final : public CLI::ConfigTOML {
 public:
  explicit ConfigReader(std::shared_ptr<std::vector<ModelSection>> sections)
      : sections_(std::move(sections)) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::vector<CLI::ConfigItem> items = CLI::ConfigTOML::from_config(input);
    std::erase_if(items, [this](const CLI::ConfigItem& item) {
      const bool is_of_models = !item.parents.empty() && item.parents.front() == "models";
      if (is_of_models) take(item);
      return is_of_models;
    });
    return items;
  }

 private:
  void take(const CLI::ConfigItem& item) const {
    if (item.parents.size() < 2 || item.name == "--" || item.name == "++") return;
    // The library splits the name of a section at each dot, also within quotes.
    std::string name =
        fmt::format("{}", fmt::join(item.parents.begin() + 1, item.parents.end(), "."));
    const bool is_quoted = name.size() > 1 && (name.front() == '"' || name.front() == '\'') &&
                           name.back() == name.front();
    if (is_quoted) name = name.substr(1, name.size() - 2);
    if (sections_->empty() || sections_->back().name != name) sections_->push_back({name, {}});
    sections_->back().flags.emplace_back(item.name, item.inputs);
  }

  const std::shared_ptr<std::vector<ModelSection>> sections_;
};

}  // namespace

CommandLine::CommandLine(const std::string& name, const std::string& help,
                         const std::string& version)
    : app_(std::make_unique<CLI::App>(help, name)),
      model_sections_(std::make_shared<std::vector<ModelSection>>()) {
  app_->set_version_flag("--version", version);
  app_->set_config("--config", "", "file of flags, in TOML: each command has a [section]");
  app_->config_formatter(std::make_shared<ConfigReader>(model_sections_));
  app_->allow_config_extras(CLI::config_extras_mode::error);
  app_->require_subcommand(1);
  app_->fallthrough();
  app_->footer(
      "Examples:\n"
      "  kvik run model.gguf\n"
      "  kvik serve model.gguf --ctx 16k --api-key-file keys.txt\n"
      "\n"
      "kvik COMMAND --help lists the flags of a command. Flags override the environment\n"
      "(--kv-type is KVIK_KV_TYPE), which overrides the config file.");
}

CommandLine::~CommandLine() = default;

Flags CommandLine::add(const std::string& name, const std::string& help, Command run) {
  return add(Flags(*app_, models_), name, help, std::move(run));
}

Flags CommandLine::add(const Flags& parent, const std::string& name, const std::string& help,
                       Command run) {
  parent.app_->require_subcommand(1);
  CLI::App* command = parent.app_->add_subcommand(name, help);
  commands_.emplace_back(command, std::move(run));
  return Flags(*command, models_);
}

Result<std::optional<std::string>> CommandLine::parse(std::vector<std::string> arguments) {
  const auto refuse = [](std::string message) {
    return fail(ErrorCode::kInvalidArgument, std::move(message));
  };
  if (arguments.empty()) return refuse("no command given; kvik --help lists them");
  const std::string named_model = translate_conventions(arguments);
  const Line line = read_line(*app_, arguments);
  const bool has_command = line.at.has_value();
  if (!has_command && !line.first_word.empty()) {
    return refuse(fmt::format(
        "unknown command '{}'{}; kvik --help lists the commands", line.first_word,
        hint(advice_on_command(line.first_word), line.first_word, command_names(*app_))));
  }
  if (!line.unknown_flag.empty()) {
    return refuse(fmt::format(
        "unknown flag {}{}; {} --help lists the flags", line.unknown_flag,
        hint(advice_on_flag(line.unknown_flag), line.unknown_flag, flag_names(*line.command)),
        name_of(*line.command)));
  }
  if (has_command && !named_model.empty()) {
    arguments.insert(arguments.begin() + static_cast<ptrdiff_t>(*line.at) + 1, named_model);
  }
  if (has_command) {
    TRY_ASSIGN(arguments, with_environment(*app_, line, std::move(arguments)));
  }
  std::ranges::reverse(arguments);  // CLI11 expects them in reverse order
  try {
    app_->parse(std::move(arguments));
  } catch (const CLI::Success& wanted) {  // --help, --version
    std::ostringstream text, none;
    app_->exit(wanted, text, none);
    return text.str();
  } catch (const CLI::ConfigError& error) {
    return refuse(fmt::format("the config file: {}", describe_config(*app_, error)));
  } catch (const CLI::RequiredError& error) {
    return refuse(describe_missing(*line.command, error));
  } catch (const CLI::ParseError& error) {
    return refuse(error.what());
  }
  chosen_ = app_.get();
  while (!chosen_->get_subcommands().empty()) chosen_ = chosen_->get_subcommands().front();
  return std::nullopt;
}

Flags CommandLine::chosen_flags() { return Flags(*chosen_, models_); }

int CommandLine::run(std::vector<std::string> arguments) {
  const auto text = parse(std::move(arguments));
  if (!text) return report(text.error());
  if (*text) {
    streams::print_text(**text);
    return kExitOk;
  }
  for (const Flags::ModelArgument& argument : models_) {
    if (argument.command != chosen_ || argument.model->empty()) continue;
    const auto resolved =
        resolve_model_argument(*argument.model, argument.stored_name,
                               argument.downloads ? IfNotStored::kDownload : IfNotStored::kKeep);
    if (!resolved) return report(resolved.error());
  }
  return std::ranges::find(commands_, chosen_, [](const auto& c) { return c.first; })->second();
}

}  // namespace kvik
