#include <fmt/format.h>

#include <csignal>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/printable.h"
#include "base/process/child_process.h"
#include "base/process/interrupts.h"
#include "base/quantity.h"
#include "cli/agents/coding_agent.h"
#include "main/cache/cache_commands.h"
#include "main/exit_code.h"
#include "main/running/agent_session.h"
#include "tier/disk_tier.h"

namespace kvik {
namespace {

constexpr const char* kQuestion = "Reply with the word OK, and use no tools.";

struct CacheWarmOptions {
  std::vector<std::string> agents;
  std::string model;  // path
  std::string name;   // name of a stored model, of which `model` is the path; empty: none
  std::string disk;
};

// An agent that is installed.
struct InstalledAgent {
  const CodingAgent& agent;
  std::string program;
};

Result<std::vector<InstalledAgent>> find_agents(const std::vector<std::string>& names) {
  std::vector<InstalledAgent> agents;
  for (const std::string& name : names) {
    const CodingAgent* agent = find_agent(name);
    if (!agent) {
      std::string known;
      for (const CodingAgent& each : coding_agents()) {
        known += fmt::format("{}{}", known.empty() ? "" : ", ", each.name);
      }
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("'{}' is not a coding agent that kvik launch knows; expected {}",
                              name, known));
    }
    TRY_ASSIGN(std::string program, program_of(*agent));
    agents.push_back({*agent, std::move(program)});
  }
  return agents;
}

// Returns the last line of a log.
std::string last_line(const std::string& log_file) {
  std::ifstream log(log_file);
  std::string last;
  for (std::string line; std::getline(log, line);) {
    if (!line.empty()) last = line;
  }
  return printable(last);
}

// Lets the agent answer a question. Returns false if a signal ended it.
Result<bool> ask(const InstalledAgent& installed, const AgentServer& server,
                 const ScratchFolder& folder) {
  constexpr int kTerminated = 128 + SIGTERM;
  const CodingAgent& agent = installed.agent;
  AgentSetup setup = agent.setup(server);
  TRY(write_files(folder, setup));
  std::vector<std::string> arguments = setup.asks;
  arguments.emplace_back(kQuestion);
  const std::string log_file = folder.file(fmt::format("{}.log", agent.name));
  TRY_ASSIGN(const int code, run_agent(installed.program, setup, arguments, log_file));
  if (code == 0 || code == kTerminated) return code == 0;
  return fail(ErrorCode::kIo, fmt::format("{} ended with {}: {}", agent.title, exit_text(code),
                                          last_line(log_file)));
}

Result<int> ask_all(const std::vector<InstalledAgent>& agents, const AgentServer& server,
                    const ScratchFolder& folder) {
  for (const InstalledAgent& agent : agents) {
    TRY_ASSIGN(const bool has_answered, ask(agent, server, folder));
    if (!has_answered) return kExitInterrupted;
    streams::print("{}: done\n", agent.agent.title);
  }
  return kExitOk;
}

// Asks one question in each agent, so that its instructions and tools are computed.
Result<int> warm_cache(const CacheWarmOptions& options) {
  TRY_ASSIGN(const auto agents, find_agents(options.agents));
  Interrupts::catch_them();
  TRY_ASSIGN(const ScratchFolder folder, make_session_folder());
  auto started = start_agent_server({.model = options.model,
                                     .name = options.name,
                                     .api_key = {},
                                     .flags = {"--disk", options.disk}},
                                    folder);
  if (!started && Interrupts::is_raised()) return kExitInterrupted;
  if (!started) return std::unexpected<Error>(started.error());
  TRY_ASSIGN(const AgentServer server, seen_by_agents(*started));
  warn_of_short_context(server);
  const auto code = ask_all(agents, server, folder);
  started->stop();  // stores the pages that were computed
  if (!code || *code != kExitOk) return code;
  TRY_ASSIGN(const DiskTierReport report, inspect_disk_tier(options.disk));
  if (report.totals.n_pages == 0) {
    return fail(ErrorCode::kIo, fmt::format("no page was stored in '{}'", options.disk));
  }
  streams::print("{} has {} of {}\n", options.disk, counted(report.totals.n_pages, "page"),
                 counted(report.totals.n_tokens, "token"));
  return kExitOk;
}

}  // namespace

void add_cache_warm(CommandLine& line, const Flags& cache) {
  auto options = std::make_shared<CacheWarmOptions>();
  Flags flags =
      line.add(cache, "warm", "Compute the instructions and tools of coding agents for a folder",
               [options] { return finish(warm_cache(*options)); });
  flags.add({
      Flag("AGENT", &options->agents,
           "coding agents that kvik launch knows and that are installed; each answers one short "
           "question in the current folder, with a server that KVIK_… variables configure")
          .required(),
      Flag("-m,--model", &options->model, "the model")
          .called("MODEL")
          .is_model(&options->name)
          .required(),
      Flag("--disk", as_path(options->disk),
           "the folder of kvik serve --disk; no server may use it")
          .called("DIR")
          .required(),
  });
  flags.examples({"kvik cache warm claude codex -m model.gguf --disk pages/"});
}

}  // namespace kvik
