#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/file/new_file.h"
#include "base/file/private_files.h"
#include "base/log.h"
#include "base/process/child_process.h"
#include "base/process/interrupts.h"
#include "cli/agents/coding_agent.h"
#include "cli/remote/served_models.h"
#include "host/load_model.h"
#include "main/commands.h"
#include "main/environment.h"
#include "main/exit_code.h"
#include "main/models/model_argument.h"
#include "main/running/server_flags.h"
#include "main/running/server_process.h"
#include "main/scratch_folder.h"

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

// Makes a folder for one session.
Result<ScratchFolder> make_session_folder() {
  const std::string root = environment("TMPDIR");
  return ScratchFolder::make((root.empty() ? "/tmp" : root) + "/kvik-launch-");
}

// Returns the model that the user named, or the first one that is loaded, or the first one.
std::optional<ServedModel> choose(const std::vector<ServedModel>& models, const std::string& name) {
  if (!name.empty()) return find_model(models, name);
  const auto is_base = [](const ServedModel& model) { return model.parent.empty(); };
  const auto is_loaded = [&](const ServedModel& model) {
    return is_base(model) && (model.state.empty() || model.state == "loaded");
  };
  auto found = std::ranges::find_if(models, is_loaded);
  if (found == models.end()) found = std::ranges::find_if(models, is_base);
  if (found == models.end()) return std::nullopt;
  return *found;
}

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
  const auto model = choose(*models, options.name.empty() ? options.model : options.name);
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

// Returns the flags of `kvik serve` for a context that agents need: none if the automatic choice
// is large enough, otherwise what the model was trained for, at most kAgentContext. Errors: those
// of opening the model.
Result<std::vector<std::string>> context_flags(const std::string& name) {
  using Flags = std::vector<std::string>;
  ModelOptions model{.model = name};
  TRY_ASSIGN(const auto source, open_model(name));
  if (!environment("KVIK_CTX").empty() || !environment("KVIK_KV_MEMORY").empty()) return Flags();
  TRY_ASSIGN(const auto backend, make_backend(model));
  const auto footprint = Footprint::of(*source, *backend);
  if (!footprint) return Flags();
  const uint64_t chosen = choose_memory(model, {}, {}, *footprint, *backend).choice.n_ctx;
  const uint64_t wanted = std::min<uint64_t>(kAgentContext, footprint->config().n_ctx_train);
  return chosen >= wanted ? Flags() : Flags{"--ctx", std::to_string(wanted)};
}

// Starts a server for this session.
Result<ServerProcess> start_server(LaunchOptions options, const ScratchFolder& folder) {
  if (options.model.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("no server answers at {}: give --model MODEL to start one for this "
                            "session, or start kvik serve MODEL",
                            kDefaultServerUrl));
  }
  TRY(resolve_model_argument(options.model, &options.name, IfNotStored::kDownload));
  TRY_ASSIGN(auto flags, context_flags(options.model));
  flags.insert(flags.end(), {"--alias", "*"});
  if (!options.name.empty()) flags.insert(flags.end(), {"--served-model-name", options.name});
  return ServerProcess::start({.model = options.model,
                               .flags = std::move(flags),
                               .api_key = options.server.first_key(),
                               .log_file = folder.file("serve.log")});
}

// Returns the server of this session as the agent sees it.
Result<AgentServer> describe(const ServerProcess& server) {
  TRY_ASSIGN(const auto models, list_models(server.client(), kAskTime));
  const auto model = choose(models, "");
  if (!model) return fail(ErrorCode::kIo, "the server lists no model");
  return AgentServer{.url = server.client().url().text(),
                     .api_key = server.client().api_key(),
                     .model = model->id,
                     .n_ctx = model->n_ctx};
}

// Writes the agent's files, and adds the variables that name them.
Result<void> write_files(const ScratchFolder& folder, AgentSetup& setup) {
  for (const AgentSetup::File& file : setup.files) {
    const std::string path = folder.file(file.name);
    TRY_ASSIGN(NewFile out, NewFile::create(path, kPrivateFile));
    TRY(out.write(std::as_bytes(std::span(file.text))));
    TRY(out.commit());
    setup.variables.emplace_back(file.variable, path);
  }
  return {};
}

// Runs the agent in this terminal and returns its exit code. The terminal sends Ctrl-C to the agent
// too, which decides what it means; other signals are passed on.
Result<int> run_agent(const std::string& program, const AgentSetup& setup,
                      const std::vector<std::string>& arguments) {
  ChildProcess::Options options{
      .program = program, .arguments = setup.arguments, .variables = setup.variables};
  options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
  TRY_ASSIGN(ChildProcess agent, ChildProcess::start(options));
  while (!agent.wait_or(Interrupts::signal_fd())) {
    Interrupts::take();
    if (Interrupts::is_terminated()) agent.send(SIGTERM);
  }
  return agent.wait();
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
  const auto program = find_program(std::string(agent.name), environment("PATH"));
  if (!program) {
    return fail(ErrorCode::kNotFound,
                fmt::format("{} is not installed; npm install -g {} installs it", agent.title,
                            agent.package));
  }
  Interrupts::catch_them();
  TRY_ASSIGN(const ScratchFolder folder, make_session_folder());
  std::optional<ServerProcess> own;
  if (!server) {
    auto started = start_server(options, folder);
    if (!started && Interrupts::is_raised()) return kExitInterrupted;
    if (!started) return std::unexpected<Error>(started.error());
    own.emplace(std::move(*started));
    TRY_ASSIGN(server, describe(*own));
  }
  if (server->n_ctx < kAgentContext) {
    log::warn("the context of {} is {} tokens, and coding agents need {} or more", server->model,
              server->n_ctx, kAgentContext);
  }
  AgentSetup setup = agent.setup(*server);
  TRY(write_files(folder, setup));
  const auto code = run_agent(*program, setup, options.arguments);
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
