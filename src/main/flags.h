#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace CLI {
class App;
}

namespace kvik {

// Executes a subcommand after its flags were parsed, and returns the exit code.
using Command = std::function<int()>;

// The parser of a flag value with a special syntax.
struct Words {
  std::string type;  // name of the value in the help
  // parses the text; returns an error message, empty on success
  std::function<std::string(const std::string&)> read;
};

// Return parsers for counts, which may end in k (1024) or M, for comma-separated counts, and for
// sizes, which may have a unit such as KiB or KB.
Words as_count(uint64_t& value);
Words as_count(std::optional<uint64_t>& value);
Words as_counts(std::vector<uint64_t>& values);
Words as_bytes(uint64_t& value);
// Returns a parser that also rejects 0.
Words not_zero(Words words);
// Returns a parser that also accepts "auto", which leaves the value unset.
Words or_auto(Words words);
// Returns a parser for the path of a file or folder; it rejects an empty one.
Words as_path(std::string& path);
Words as_bytes(std::optional<uint64_t>& value);
// Returns a parser for a duration with a unit.
Words as_duration(Duration& value);
// Returns a parser that accepts any text, including the empty one.
Words as_text(std::optional<std::string>& value);

// An inclusive range.
template <class T>
struct Between {
  T least, most;
};

// One flag ("--ctx", "-p,--prompt") or positional argument ("MODEL") of a command. A flag with a
// bool target takes no value. Each flag has an environment variable: KVIK_MAX_TOKENS for
// --max-tokens.
struct Flag {
  using Target = std::variant<bool*, std::string*, std::vector<std::string>*,
                              std::optional<std::string>*, uint16_t*, uint32_t*, float*,
                              std::optional<uint64_t>*, std::optional<double>*, Words>;
  using Bounds = std::variant<std::monostate, Between<uint32_t>, Between<int>, Between<double>>;

  // The object that `target` points to must outlive parsing.
  Flag(std::string flag_name, Target target, std::string what_it_does)
      : name(std::move(flag_name)), to(std::move(target)), help(std::move(what_it_does)) {}

  template <class T>
  Flag& between(T least, T most) {
    bounds = Between<T>{least, most};
    return *this;
  }
  // Sets the name of the value in the help, if it is not the default name of its type.
  Flag& called(std::string type) {
    called_type = std::move(type);
    return *this;
  }
  Flag& one_of(std::vector<std::string> values) {
    choices = std::move(values);
    return *this;
  }
  // Marks the name of a model: before the command runs, a stored name becomes its file or folder,
  // and a name with its origin (hf.co/…) is downloaded if it is not stored. `name`: receives the
  // stored name; null: not needed. The target must be a std::string*.
  Flag& is_model(std::string* name = nullptr) {
    names_model = true;
    stored_name = name;
    return *this;
  }
  Flag& required() {
    is_required = true;
    return *this;
  }
  // Makes the help show the target's initial value as the default.
  Flag& with_default() {
    shows_default = true;
    return *this;
  }

  std::string name;
  Target to;
  std::string help;
  std::string called_type = {};
  Bounds bounds = {};
  std::vector<std::string> choices = {};  // empty: any
  bool is_required = false;
  bool shows_default = false;
  bool names_model = false;
  std::string* stored_name = nullptr;
};

// A flag and its values; no values for a flag that takes none.
using GivenFlag = std::pair<std::string, std::vector<std::string>>;

// A section [models.NAME] of the config file: flags of `kvik serve` for one model.
struct ModelSection {
  std::string name;
  std::vector<GivenFlag> flags;  // names as in the file, without dashes
};

// The flags of one command.
class Flags {
 public:
  void add(const Flag& flag);
  void add(std::initializer_list<Flag> flags);
  // Adds flags under a heading of the help, such as "Sampling".
  void add(const std::string& group, std::initializer_list<Flag> flags);

  // Lets the command itself resolve the name of a model that is not stored.
  void keep_unstored(const std::string* model);
  // Replaces the help of a flag that is already added.
  void describe(const std::string& name, const std::string& help);
  // Accepts command lines without a required flag or positional argument.
  void make_optional(const std::string& name);
  // Rejects command lines that have `name` together with one of `others`.
  void exclude(const std::string& name, std::initializer_list<std::string> others);
  // Returns the flags that the command line, the environment or the config file gave, by their
  // first long name without dashes, in the order of add(). Called after parsing.
  std::vector<GivenFlag> given() const;
  // Returns the first long name of a flag, given any long name without dashes. Errors:
  // kInvalidArgument.
  Result<std::string> long_name(const std::string& name) const;
  // Prints these lines at the end of the help, under "Examples".
  void examples(std::initializer_list<const char*> lines);

 private:
  friend class CommandLine;
  // An argument that names a model.
  struct ModelArgument {
    const CLI::App* command;
    std::string* model;
    std::string* stored_name;  // null: not needed
    bool downloads = true;     // if it is not stored
  };
  Flags(CLI::App& app, std::vector<ModelArgument>& models) : app_(&app), models_(&models) {}

  CLI::App* app_;
  std::vector<ModelArgument>* models_;
};

// The program's commands. Precedence: flag, environment, config file, default. Only
// command_line.cpp and flags.cpp include the parsing library, because its headers take seconds to
// compile.
class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& help, const std::string& version);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // Adds a subcommand, or a subcommand of another one.
  Flags add(const std::string& name, const std::string& help, Command run);
  Flags add(const Flags& parent, const std::string& name, const std::string& help, Command run);

  // Returns the sections for models in the config file. Called after parsing.
  const std::vector<ModelSection>& model_sections() const { return *model_sections_; }

  // Parses the arguments (without the program's name). Returns the text of --help or --version if
  // one of them is given. Errors: kInvalidArgument.
  Result<std::optional<std::string>> parse(std::vector<std::string> arguments);
  // Returns the flags of the command that was parsed.
  Flags chosen_flags();

  // Parses the arguments (without the program's name), executes the command and returns the exit
  // code.
  int run(std::vector<std::string> arguments);

 private:
  std::unique_ptr<CLI::App> app_;
  std::vector<std::pair<const CLI::App*, Command>> commands_;
  CLI::App* chosen_ = nullptr;  // the command that was parsed
  std::vector<Flags::ModelArgument> models_;
  std::shared_ptr<std::vector<ModelSection>> model_sections_;
};

}  // namespace kvik
