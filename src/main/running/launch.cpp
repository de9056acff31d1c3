#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/process/interrupts.h"
#include "cli/agents/coding_agent.h"
#include "cli/remote/served_models.h"
#include "host/load_model.h"
#include "main/commands.h"
#include "main/exit_code.h"
#include "main/models/model_argument.h"
#include "main/running/agent_session.h"
#include "main/running/server_flags.h"
#include "main/running/server_process.h"

namespace kvik {
namespace {

// The context and the name that --print shows if there is no server.
constexpr uint64_t kShownContext = 64 << 10;
constexpr const char* kShownModel = "kvik";

struct LaunchOptions {
  std::string agent;
  std::string model;  // a name or a path; empty: the one of the running server
  std::string name;   // name of a stored model, of which `model` is the path; empty: none
  std::vector<std::string> arguments;
  ServerFlags server;
  bool print = false;
};

// Returns the running server; std::nullopt if there is none, or if it does not serve the model.
// Errors: those of a server that --url names, or that runs and does not answer.
Result<std::optional<AgentServer>> find_server(const LaunchOptions& options) {
  using Found = std::optional<AgentServer>;
  if (options.server.is_off()) return Found();
  TRY_ASSIGN(const HttpClient client, options.server.client());
  const auto models = list_models(client, kAskTime);
  const bool must_exist = options.server.names_server();
  if (!models) {
    const ErrorCode code = models.error().code;
    const bool is_absent = code == ErrorCode::kNotFound || code == ErrorCode::kCorrupt;
    if (is_absent && !must_exist) return Found();
    return fail(code,
                fmt::format("{} (the server at {})", models.error().message, client.url().text()));
  }
  const auto model = choose_model(*models, options.name.empty() ? options.model : options.name);
  if (!model && !must_exist) return Found();
  if (!model) {
    return fail(ErrorCode::kNotFound,
                fmt::format("{} does not serve {}", client.url().text(),
                            options.model.empty() ? "a model" : options.model));
  }
  return Found(AgentServer{.url = client.url().text(),
                           .api_key = client.api_key(),
                           .model = model->id,
                           .n_ctx = model->n_ctx ? model->n_ctx : kShownContext});
}

// Starts a server for this session.
Result<ServerProcess> start_own_server(LaunchOptions options, const ScratchFolder& folder) {
  if (options.model.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("no server answers at {}: give --model MODEL to start one for this "
                            "session, or start kvik serve MODEL",
                            kDefaultServerUrl));
  }
  TRY(resolve_model_argument(options.model, &options.name, IfNotStored::kDownload));
  return start_agent_server({.model = options.model,
                             .name = options.name,
                             .api_key = options.server.first_key(),
                             .flags = {}},
                            folder);
}

std::string printed(const CodingAgent& agent, const LaunchOptions& options,
                    const std::optional<AgentServer>& server) {
  std::string out;
  if (!server) {
    out = fmt::format(
        "# No server answers. kvik launch {} --model MODEL starts one:\n"
        "#   kvik serve MODEL --alias '*'\n",
        agent.name);
  }
  std::string model = options.name;
  if (model.empty()) model = options.model.empty() ? kShownModel : model_id(options.model).text();
  const AgentServer shown{.url = std::string(kDefaultServerUrl),
                          .api_key = options.server.first_key(),
                          .model = model,
                          .n_ctx = kShownContext};
  return out + script_of(agent.setup(server.value_or(shown)), options.arguments);
}

Result<int> launch(const LaunchOptions& options) {
  const CodingAgent& agent = *find_agent(options.agent);  // the flag accepts no other name
  TRY_ASSIGN(std::optional<AgentServer> server, find_server(options));
  if (options.print) {
    streams::print_text(printed(agent, options, server));
    return kExitOk;
  }
  TRY_ASSIGN(const std::string program, program_of(agent));
  Interrupts::catch_them();
  TRY_ASSIGN(const ScratchFolder folder, make_session_folder());
  std::optional<ServerProcess> own;
  if (!server) {
    auto started = start_own_server(options, folder);
    if (!started && Interrupts::is_raised()) return kExitInterrupted;
    if (!started) return std::unexpected<Error>(started.error());
    own.emplace(std::move(*started));
    TRY_ASSIGN(server, seen_by_agents(*own));
  }
  warn_of_short_context(*server);
  AgentSetup setup = agent.setup(*server);
  TRY(write_files(folder, setup));
  const auto code = run_agent(program, setup, options.arguments);
  if (own) own->stop();
  return code;
}

}  // namespace

void add_launch(CommandLine& line) {
  auto options = std::make_shared<LaunchOptions>();
  Flags flags = line.add("launch", "Run a coding agent with a running server, or start one for it",
                         [options] { return finish(launch(*options)); });
  std::vector<std::string> names;
  for (const CodingAgent& agent : coding_agents()) names.emplace_back(agent.name);
  flags.add({Flag("AGENT", &options->agent, "the coding agent, which must be installed")
                 .one_of(std::move(names))
                 .required(),
             {"ARGUMENTS", &options->arguments, "arguments of the agent, after --"}});
  flags.add({Flag("-m,--model", &options->model,
                  "model by its name on the running server; if no server serves it, a server is "
                  "started for this session, with the settings of KVIK_… variables (default: the "
                  "running server's model)")
                 .called("MODEL")
                 .is_model(&options->name),
             {"--print", &options->print,
              "print what would be set and run, as a shell script, and do nothing"}});
  flags.keep_unstored(&options->model);  // a server may have it
  options->server.add_to(flags);
  flags.examples({
      "kvik launch claude                                  # with the server that runs",
      "kvik launch codex --model model.gguf                # with a server of its own",
      "kvik launch qwen -- -p \"What does this program do?\"",
  });
}

}  // namespace kvik
