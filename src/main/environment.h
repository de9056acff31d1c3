#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace kvik {

// The value of an environment variable, empty where it is not set. Nothing else in the project
// reads the environment.
std::string environment(const std::string& name);

// The command line with the environment behind it: KVIK_MAX_TOKENS=9 becomes --max-tokens=9 where
// the program or the subcommand has that flag and the line does not. Flag > environment > config
// file > default.
std::vector<std::string> with_environment(const CLI::App& app, std::vector<std::string> arguments);

}  // namespace kvik
