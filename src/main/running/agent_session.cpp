#include "main/running/agent_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <span>
#include <utility>

#include "base/file/new_file.h"
#include "base/file/private_files.h"
#include "base/log.h"
#include "base/process/child_process.h"
#include "base/process/interrupts.h"
#include "host/load_model.h"
#include "main/environment.h"
#include "main/running/server_flags.h"

namespace kvik {
namespace {

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

}  // namespace

Result<ScratchFolder> make_session_folder() {
  const std::string root = environment("TMPDIR");
  return ScratchFolder::make((root.empty() ? "/tmp" : root) + "/kvik-launch-");
}

std::optional<ServedModel> choose_model(const std::vector<ServedModel>& models,
                                        const std::string& name) {
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

Result<ServerProcess> start_agent_server(const AgentServerOptions& options,
                                         const ScratchFolder& folder) {
  TRY_ASSIGN(auto flags, context_flags(options.model));
  flags.insert(flags.end(), {"--alias", "*"});
  if (!options.name.empty()) flags.insert(flags.end(), {"--served-model-name", options.name});
  flags.insert(flags.end(), options.flags.begin(), options.flags.end());
  return ServerProcess::start({.model = options.model,
                               .flags = std::move(flags),
                               .api_key = options.api_key,
                               .log_file = folder.file("serve.log")});
}

Result<AgentServer> seen_by_agents(const ServerProcess& server) {
  TRY_ASSIGN(const auto models, list_models(server.client(), kAskTime));
  const auto model = choose_model(models, "");
  if (!model) return fail(ErrorCode::kIo, "the server lists no model");
  return AgentServer{.url = server.client().url().text(),
                     .api_key = server.client().api_key(),
                     .model = model->id,
                     .n_ctx = model->n_ctx};
}

void warn_of_short_context(const AgentServer& server) {
  if (server.n_ctx >= kAgentContext) return;
  log::warn("the context of {} is {} tokens, and coding agents need {} or more", server.model,
            server.n_ctx, kAgentContext);
}

Result<std::string> program_of(const CodingAgent& agent) {
  auto program = find_program(std::string(agent.name), environment("PATH"));
  if (program) return std::move(*program);
  return fail(ErrorCode::kNotFound,
              fmt::format("{} is not installed; npm install -g {} installs it", agent.title,
                          agent.package));
}

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

Result<int> run_agent(const std::string& program, const AgentSetup& setup,
                      const std::vector<std::string>& arguments, const std::string& log_file) {
  ChildProcess::Options options{.program = program,
                                .arguments = setup.arguments,
                                .variables = setup.variables,
                                .log_file = log_file,
                                .is_background = !log_file.empty()};
  options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
  TRY_ASSIGN(ChildProcess agent, ChildProcess::start(options));
  while (!agent.wait_or(Interrupts::signal_fd())) {
    Interrupts::take();
    if (options.is_background || Interrupts::is_terminated()) agent.send(SIGTERM);
  }
  return agent.wait();
}

}  // namespace kvik
