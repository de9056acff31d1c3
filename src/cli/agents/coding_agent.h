#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvik {

// The server that an agent uses.
struct AgentServer {
  std::string url;      // http://HOST:PORT
  std::string api_key;  // empty: none
  std::string model;    // name of the model in requests
  uint64_t n_ctx = 0;   // context of the model, in tokens
};

// A command with variables and files that make an agent use a server. The files are for a temporary
// folder; the user's own configuration is neither read nor changed.
struct AgentSetup {
  struct File {
    std::string name;
    std::string text;
    std::string variable;  // environment variable that gets the file's path
  };
  std::string program;
  std::vector<std::string> arguments;  // before those of the user
  // Arguments after these, which a question follows: the agent answers it and ends.
  std::vector<std::string> asks;
  std::vector<std::pair<std::string, std::string>> variables;
  std::vector<File> files;
};

// A coding agent that `kvik launch` knows.
struct CodingAgent {
  std::string_view name;     // of the command line, and of the program
  std::string_view title;    // "Claude Code"
  std::string_view package;  // of npm
  AgentSetup (*setup)(const AgentServer& server);
};

// Agents need this context for their instructions, tools and the files that they read.
inline constexpr uint64_t kAgentContext = 32 << 10;

std::span<const CodingAgent> coding_agents();
// Returns null if there is none of this name.
const CodingAgent* find_agent(std::string_view name);

// Returns a shell script that has the effect of the setup and runs the agent with these arguments.
std::string script_of(const AgentSetup& setup, const std::vector<std::string>& arguments);

// Returns the text as one word of a POSIX shell.
std::string shell_word(std::string_view text);

}  // namespace kvik
