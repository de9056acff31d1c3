#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/agents/coding_agent.h"
#include "cli/remote/served_models.h"
#include "main/running/server_process.h"
#include "main/scratch_folder.h"

namespace kvik {

// Makes a folder for one session. Errors: kIo.
Result<ScratchFolder> make_session_folder();

// Returns the model that the user named, or the first one that is loaded, or the first one.
std::optional<ServedModel> choose_model(const std::vector<ServedModel>& models,
                                        const std::string& name);

// A server that is started for coding agents.
struct AgentServerOptions {
  std::string model;               // path
  std::string name;                // name of a stored model; empty: none
  std::string api_key;             // empty: none
  std::vector<std::string> flags;  // further flags of kvik serve
};
// Starts a server with the context that agents need, which logs to the session's folder. Errors:
// those of opening the model and of ServerProcess::start().
Result<ServerProcess> start_agent_server(const AgentServerOptions& options,
                                         const ScratchFolder& folder);
// Returns a server that was started as agents see it. Errors: those of its answers.
Result<AgentServer> seen_by_agents(const ServerProcess& server);
// Logs a warning if the context is shorter than agents need.
void warn_of_short_context(const AgentServer& server);

// Returns the path of an agent's program. Errors: kNotFound, with the command that installs it.
Result<std::string> program_of(const CodingAgent& agent);
// Writes the agent's files, and adds the variables that name them. Errors: kIo.
Result<void> write_files(const ScratchFolder& folder, AgentSetup& setup);
// Runs the agent and returns its exit code. log_file: receives what it prints, and it gets no
// input; any signal then ends it. Empty: it runs in this terminal, which sends Ctrl-C to the agent
// too, so that the agent decides what that means; other signals are passed on.
Result<int> run_agent(const std::string& program, const AgentSetup& setup,
                      const std::vector<std::string>& arguments, const std::string& log_file = {});

}  // namespace kvik
