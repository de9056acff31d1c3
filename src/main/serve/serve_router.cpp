#include "main/serve/serve_router.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "base/file/file_descriptor.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/process/interrupts.h"
#include "base/process/service_manager.h"
#include "base/process/watchdog.h"
#include "base/quantity.h"
#include "base/text/percent_encoding.h"
#include "host/available_memory.h"
#include "host/build_info.h"
#include "host/models/folder_bytes.h"
#include "host/models/model_manager.h"
#include "host/models/warm_folder.h"
#include "main/exit_code.h"
#include "server/operate/counter_sums.h"
#include "server/proxy/proxy_reply.h"
#include "server/server.h"
#include "server/unavailable_service.h"
#include "tier/disk_tier.h"

namespace kvik {
namespace {

// Bounds on requests are those of a model with this context; the model's server applies its own.
constexpr uint32_t kContext = 1 << 18;
// The smallest folder that is worth keeping, and that a disk tier accepts.
constexpr uint64_t kMinWarm = uint64_t{16} << 20;

// Returns a name that can be a folder, and is neither hidden nor "..".
std::string folder_name(std::string_view model) {
  std::string name = percent_encoded(model, "._-");
  if (name.starts_with('.')) name.replace(0, 1, "%2E");
  return name;
}

// Returns the environment of a model's server: without Kvik's variables, which are among its
// arguments, and with the API keys, which must not be.
std::vector<std::string> server_environment(const std::vector<std::string>& api_keys) {
  std::vector<std::string> variables;
  for (char** at = environ; *at; ++at) {
    const std::string_view variable = *at;
    const std::string_view name = variable.substr(0, variable.find('='));
    const bool is_flag =
        name.starts_with("KVIK_") && name != "KVIK_LOG" && name != "KVIK_REDIS_PASSWORD";
    const bool is_of_manager =
        name == "NOTIFY_SOCKET" || name.starts_with("LISTEN_") || name.starts_with("WATCHDOG_");
    if (!is_flag && !is_of_manager) variables.emplace_back(variable);
  }
  if (!api_keys.empty())
    variables.push_back(fmt::format("KVIK_API_KEY={}", fmt::join(api_keys, ",")));
  return variables;
}

// Removes flags that are for the router's other models and that an encoder refuses: those of tiers,
// and a --ctx above its longest text.
void fit_to_encoder(uint32_t n_ctx_most, std::vector<std::string>& arguments) {
  std::erase_if(arguments, [&](std::string_view argument) {
    constexpr std::string_view kCtx = "--ctx=";
    if (argument.starts_with(kCtx)) {
      const auto n_ctx = parse_count(argument.substr(kCtx.size()));
      return n_ctx && *n_ctx > n_ctx_most;
    }
    return argument.starts_with("--shared") || argument.starts_with("--redis");
  });
}

// Plans the processes of the models.
class LaunchPlanner {
 public:
  LaunchPlanner(const RouterSetup& setup, uint64_t memory_bytes)
      : setup_(setup), memory_bytes_(memory_bytes) {
    if (setup.disk.empty() && setup.options.warm_cache == "on")
      warm_ = std::make_unique<WarmFolder>();
  }

  // Called on one thread.
  Result<ModelLaunch> plan(const ModelSpec& spec) const {
    const auto model = setup_.models.find(spec.name);
    if (!model)
      return fail(ErrorCode::kNotFound,
                  fmt::format("the model '{}' has been removed", printable(spec.name)), "model");
    std::vector<std::string> arguments = {"/proc/self/exe", "serve"};
    const std::vector<std::string> flags = server_arguments(setup_.flags, *model);
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    arguments.push_back("--model=" + spec.path);
    arguments.push_back("--served-model-name=" + spec.name);
    for (const std::string& alias : spec.aliases) arguments.push_back("--alias=" + alias);
    arguments.emplace_back("--host=127.0.0.1");
    // Several models should fit at once.
    const uint64_t share = memory_bytes_ / std::clamp<uint64_t>(setup_.models.size(), 1, 2);
    TRY_ASSIGN(const ServerPlan plan, setup_.plan({arguments.begin() + 2, arguments.end()}, share));
    if (!plan.sets_kv_memory) arguments.push_back(fmt::format("--kv-memory={}", plan.kv_bytes));
    if (plan.encoder_ctx) fit_to_encoder(*plan.encoder_ctx, arguments);
    ModelLaunch launch{.arguments = std::move(arguments),
                       .environment = server_environment(setup_.api_keys),
                       .planned_bytes = plan.n_bytes,
                       .kept_folder = {}};
    if (!plan.encoder_ctx) add_disk(spec, plan, launch);
    return launch;
  }

 private:
  void add_disk(const ModelSpec& spec, const ServerPlan& plan, ModelLaunch& launch) const {
    if (!setup_.disk.empty()) {
      launch.arguments.push_back(fmt::format("--disk={}/{}", setup_.disk, folder_name(spec.name)));
      launch.arguments.push_back(fmt::format(
          "--disk-size={}", setup_.disk_bytes / std::max<size_t>(1, setup_.models.size())));
      return;
    }
    if (!warm_ || warm_->path().empty()) return;
    const std::string folder = warm_->path() + "/" + folder_name(spec.name);
    // The index of the pages takes a little more than the pages themselves. Beside them there must
    // be room for the model, or it could not read them, and for its index, or it would not start.
    const uint64_t room = free_bytes(warm_->path()) + folder_bytes(folder);
    const uint64_t most =
        std::min({plan.kv_bytes + plan.kv_bytes / 8, memory_bytes_ / 2,
                  memory_bytes_ - std::min(plan.n_bytes, memory_bytes_), room - room / 8});
    if (most < kMinWarm) return;
    launch.kept_folder = folder;
    launch.arguments.push_back("--disk=" + launch.kept_folder);
    launch.arguments.push_back(fmt::format("--disk-size={}", most));
    launch.arguments.emplace_back("--disk-write=exit");
  }

  const RouterSetup& setup_;
  const uint64_t memory_bytes_;
  std::unique_ptr<WarmFolder> warm_;  // null: pages are not kept in memory
};

// Removes the least recently used KV pages of a disk tier until its folder has at most n_bytes.
Result<void> trim_kept(const std::string& folder, uint64_t n_bytes) {
  TRY_ASSIGN(const auto tier, DiskTier::open({.folder = folder}));
  const uint64_t n_page_bytes = tier->size().n_bytes;
  const uint64_t n_index_bytes = std::max(folder_bytes(folder), n_page_bytes) - n_page_bytes;
  return tier->trim_to(std::max(n_bytes, n_index_bytes) - n_index_bytes);
}

// Opens a listening socket for the server of a model.
Result<LoopbackSocket> listen_on_loopback() {
  TRY_ASSIGN(const ListenSocket socket, ListenSocket::open("127.0.0.1", 0));
  TRY_ASSIGN(const int copy, socket.duplicate());
  return LoopbackSocket{.socket = FileDescriptor(copy), .port = socket.port()};
}

}  // namespace

Result<int> serve_router(const RouterSetup& setup, const ListenSocket& socket) {
  const uint64_t available = available_memory_bytes().value_or(uint64_t{4} << 30);
  const uint64_t memory_bytes = setup.options.memory_bytes.value_or(available / 10 * 9);
  const LaunchPlanner planner(setup, memory_bytes);
  CounterSums counter_sums;
  ModelManagerOptions options{
      .models = setup.models.specs(),
      .changed_models = [&] { return setup.models.changed_specs(); },
      .memory_bytes = memory_bytes,
      .plan = [&](const ModelSpec& spec) { return planner.plan(spec); },
      .listen = listen_on_loopback,
      .trim_kept = trim_kept,
      .on_end = [&](const std::string& name, uint64_t n_loads,
                    const std::string& counters) { counter_sums.end(name, n_loads, counters); }};
  std::vector<std::string> names;
  for (const ModelSpec& spec : options.models) names.push_back(spec.name);
  TRY_ASSIGN(const auto upstreams, Upstreams::start());
  TRY_ASSIGN(const auto models, ModelManager::start(std::move(options)));
  const ModelRouter router{.models = *models, .upstreams = *upstreams, .counters = counter_sums};
  UnavailableService service("no model answers this route", kContext);
  ServerOptions server_options = setup.server;
  server_options.router = &router;
  server_options.version = build_info().version;
  Interrupts::catch_first();
  TRY_ASSIGN(const auto server, Server::start(service, server_options, socket));
  log::info("{} in {} of memory: {}", names.size() == 1 ? "one model" : "models",
            format_bytes(memory_bytes), fmt::format("{}", fmt::join(names, ", ")));
  log::info("listening on {}", socket.url(setup.server.tls ? "https" : "http"));
  // A sign of life means that the manager of the models answers.
  TRY_ASSIGN(const auto watchdog, Watchdog::start(setup.manager, [&models] {
               static_cast<void>(models->list());
               return true;
             }));
  setup.manager.notify("READY=1");
  while (!Interrupts::wait()) {
  }
  setup.manager.notify("STOPPING=1");
  log::info("draining: no new requests, up to {} s for those that run", kDrainTime.count());
  server->stop_accepting();
  server->stop(kDrainTime);
  return kExitOk;
}

}  // namespace kvik
