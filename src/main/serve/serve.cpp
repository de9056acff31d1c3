#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "base/printable.h"
#include "base/process/interrupts.h"
#include "base/process/service_manager.h"
#include "base/process/watchdog.h"
#include "base/quantity.h"
#include "format/source_config.h"
#include "host/build_info.h"
#include "host/instance.h"
#include "host/load_draft.h"
#include "host/model_fit.h"
#include "hub/hub_model_library.h"
#include "hub/stores/model_store.h"
#include "main/commands.h"
#include "main/environment.h"
#include "main/exit_code.h"
#include "main/models/hub_options.h"
#include "main/serve/api_keys.h"
#include "main/serve/chat_template_file.h"
#include "main/serve/plan_server.h"
#include "main/serve/router_list.h"
#include "main/serve/router_options.h"
#include "main/serve/serve_options.h"
#include "main/serve/serve_router.h"
#include "server/dialects/responses/response_file.h"
#include "server/loading_server.h"
#include "server/operate/merge_metrics.h"
#include "server/server.h"
#include "service/model_servers.h"
#include "service/request_bounds.h"

namespace kvik {
namespace {

// The minimum context for coding agents, most of which their instructions and tools use.
constexpr uint32_t kAgentTokens = 32 << 10;

// Returns the prices; nullopt if none are given. Cached tokens have the price of computed tokens by
// default.
std::optional<Prices> prices_of(const ServeOptions& options) {
  if (!options.price_input && !options.price_cached && !options.price_output) return std::nullopt;
  const double input = options.price_input.value_or(0);
  return Prices{.input = input,
                .cached = options.price_cached.value_or(input),
                .output = options.price_output.value_or(0)};
}

// Returns the sharing of pages among tenants. For "key", isolates the tenants by their salts.
Result<Sharing> sharing_of(const std::string& wanted, std::optional<std::vector<ApiKey>>& keys) {
  if (!keys && !wanted.empty() && wanted != "all") {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--share {} needs API keys: without them all requests belong "
                            "to one tenant",
                            wanted));
  }
  if (keys && wanted == "key") isolate_tenants(*keys);
  return keys && (wanted.empty() || wanted == "two") ? Sharing::kTwo : Sharing::kAll;
}

std::string address_of(const ServerOptions& options, const ListenSocket& socket) {
  return socket.url(options.tls ? "https" : "http");
}

// Reports the progress of loading to the service manager, and that the start takes longer than its
// time limit, for as long as there is progress.
class StartReport {
 public:
  explicit StartReport(const ServiceManager& manager) : manager_(manager) {}

  void show(uint64_t n_done, uint64_t n_all) {
    const uint64_t percent = n_all == 0 ? 0 : n_done * 100 / n_all;
    if (!manager_.is_present() || percent == percent_) return;
    percent_ = percent;
    constexpr std::chrono::microseconds kTime = std::chrono::minutes(5);  // to the next percent
    manager_.notify(
        fmt::format("STATUS=loading {}%\nEXTEND_TIMEOUT_USEC={}", percent, kTime.count()));
  }

 private:
  const ServiceManager& manager_;
  std::optional<uint64_t> percent_;  // reported last
};

// Returns the socket that the service manager passed, if there is one. It replaces --host and
// --port.
Result<std::optional<ListenSocket>> inherit_socket(ServerOptions& options) {
  TRY_ASSIGN(const std::optional<int> inherited, inherited_socket(take_environment));
  if (!inherited) return std::nullopt;
  TRY_ASSIGN(ListenSocket socket, ListenSocket::adopt(FileDescriptor(*inherited)));
  options.host = socket.is_unix() ? "localhost" : socket.host();
  options.port = socket.port();
  return socket;
}

// Sends signs of life for as long as the engine thread computes or answers.
Result<std::unique_ptr<Watchdog>> watch(const ServiceManager& manager, ModelInstance& model) {
  return Watchdog::start(manager, Watchdog::probe_of([&model] { return model.probe_progress(); }));
}

// Rejects new requests and lets running ones finish within kDrainTime. A second signal ends the
// process at once, and a hanging tier ends it `tier_time` after the last request.
void drain(Server& server, ModelInstance& model, std::chrono::seconds tier_time) {
  log::info(
      "draining: no new requests, up to {} s for those that run and {} s for the tiers; a second "
      "signal ends the process now",
      kDrainTime.count(), tier_time.count());
  const TimePoint end = std::chrono::steady_clock::now() + kDrainTime;
  server.stop_accepting();
  server.wait_for_submissions(kDrainTime);
  model.drain(std::max(Duration::zero(), Duration(end - std::chrono::steady_clock::now())));
  Interrupts::end_within(tier_time, kExitOk);
  server.stop(std::chrono::seconds(2));
}

// Returns the keys of --api-key-file and --api-key, or nothing if there are neither.
Result<std::optional<std::vector<ApiKey>>> keys_of(const ServeOptions& options) {
  if (options.api_key_file.empty() && options.api_keys.empty()) return std::nullopt;
  std::vector<ApiKey> keys;
  if (!options.api_key_file.empty()) {
    TRY_ASSIGN(keys, read_api_keys(options.api_key_file));
  }
  TRY(add_api_keys(options.api_keys, keys));
  return keys;
}

// Budgets of the KV cache in bytes: that of the engine, and that which --ctx needs.
struct Budgets {
  uint64_t given = 0, for_ctx = 0;
};

// Logs the capacity of the cache, and a message if it is less than --ctx or less than coding agents
// need.
void log_context(const ServeOptions& options, const ModelCard& card, const Budgets& budgets) {
  log::info("KV cache: {} as {}, {} tokens; context {}", format_bytes(budgets.given),
            name_of(options.model.kv_type), card.kv_tokens, card.n_ctx_max);
  if (card.n_ctx_max < options.model.n_ctx) {
    log::warn("--ctx {} is cut to {}: --kv-memory {} holds no more tokens, and {} would",
              options.model.n_ctx, card.n_ctx_max, format_bytes(budgets.given),
              format_bytes(budgets.for_ctx));
  }
  const bool has_tools = card.chat_template.find("tools") != std::string::npos;
  if (has_tools && card.n_ctx_max < kAgentTokens) {
    log::info("coding agents need a context of {} tokens or more (docs/guides/coding_agents.md)",
              kAgentTokens);
  }
}

// Returns the parts of the plan under the names that `kvik plan` uses.
std::vector<PlannedMemory> planned_memory(const MemoryPlan& plan) {
  std::vector<PlannedMemory> parts = {{"weights", plan.weights_bytes}, {"KV cache", plan.kv_bytes}};
  for (const MemoryPlan::Part& part : plan.buffers) parts.push_back({part.name, part.n_bytes});
  return parts;
}

// Loads the model and starts its engine. Until then the port answers that the model is being
// loaded. On a socket of the service manager, clients wait instead, because the first of them may
// have caused the start.
Result<std::unique_ptr<ModelInstance>> load(ServeOptions& options, EngineOptions engine_options,
                                            const ListenSocket& socket,
                                            const ServiceManager& manager) {
  std::unique_ptr<LoadingServer> waiting;
  if (!socket.is_adopted()) {
    TRY_ASSIGN(waiting, LoadingServer::start(socket, options.server));
    log::info("{} is bound, and /health answers 503 until the model is loaded",
              address_of(options.server, socket));
  }
  options.model.may_encode = true;
  StartReport report(manager);
  options.model.on_progress = [&](uint64_t n_done, uint64_t n_all) {
    if (waiting) waiting->show(n_done, n_all);
    report.show(n_done, n_all);
  };
  TRY_ASSIGN(LoadedModel loaded, load_model(options.model, engine_options, memory_beside(options)));
  if (!options.name.empty()) loaded.id = options.name;
  const bool is_encoder = loaded.model->config().encoder.has_value();
  if (!loaded.draft_spec.empty() && is_encoder)
    return fail(ErrorCode::kUnsupported,
                "a draft model is for models that generate text; this one "
                "is an encoder");
  if (!loaded.draft_spec.empty()) TRY(load_draft(loaded.draft_spec, loaded, options.max_running));
  log::info("{}: {} of weights packed for {}", options.model.model,
            format_bytes(loaded.model->weight_bytes()), loaded.backend->name());
  options.server.memory_plan = planned_memory(loaded.plan);
  if (is_encoder) return serve_loaded(std::move(loaded), engine_options, options.serving);
  const Budgets budgets{.given = engine_options.kv_budget_bytes,
                        .for_ctx = loaded.kv().budget(loaded.n_ctx, 1, engine_options.tiers,
                                                      engine_options.max_running)};
  TRY_ASSIGN(auto instance, serve_loaded(std::move(loaded), engine_options, options.serving));
  log_context(options, instance->service().card(), budgets);
  return instance;
}

// Checks the options and binds the port, before tiers and model are opened, so that a port in use
// is an immediate error.
Result<ListenSocket> bind(ServeOptions& options) {
  TRY_ASSIGN(std::optional<ListenSocket> bound, inherit_socket(options.server));
  TRY_ASSIGN(options.server.api_keys, keys_of(options));
  if (!is_loopback(options.server.host) && !options.server.api_keys && !options.allow_no_key) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--host {} is open to others: give --api-key-file, --api-key or "
                            "--allow-no-key",
                            options.server.host));
  }
  if (options.tls.certificate.empty() != options.tls.key.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "--tls-cert and --tls-key belong together: one of them is missing");
  }
  if (!options.tls.certificate.empty()) options.server.tls = options.tls;
  if (options.request_memory && *options.request_memory < RequestBounds::kMinMemoryBytes) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--request-memory {} has no room for a request, expected at least {}",
                            format_bytes(*options.request_memory),
                            format_bytes(RequestBounds::kMinMemoryBytes)));
  }
  TRY(Server::check(options.server));
  if (bound) return std::move(*bound);
  return ListenSocket::open(options.server.host, options.server.port);
}

// Refuses tiers for an encoder, before they are opened.
Result<void> check_tiers(const ServeOptions& options) {
  const TierOptions& tiers = options.tiers;
  const std::string_view flag = !tiers.disk.empty()     ? "--disk"
                                : !tiers.shared.empty() ? "--shared"
                                : !tiers.redis.empty()  ? "--redis"
                                                        : "";
  if (flag.empty()) return {};
  TRY_ASSIGN(const auto source, open_model(options.model.model));
  const auto config = config_of(*source);
  if (!config || !config->encoder) return {};  // load() reports the error
  return fail(ErrorCode::kUnsupported,
              fmt::format("{} keeps pages of a KV cache, and this model is an encoder ({}), which "
                          "has none",
                          flag, config->architecture));
}

enum class Parent { kRouter, kOther };

// Sends the counters to the router, which adds those of the next process to them.
void report_counters(const ServiceManager& manager, std::string_view counters) {
  constexpr size_t kMessageBytes = 3000;
  std::string message;
  while (!counters.empty()) {
    message += fmt::format("{}={}\n", kCountersVariable, take_metric_line(counters));
    if (message.size() < kMessageBytes && !counters.empty()) continue;
    manager.notify(message);
    message.clear();
  }
}

// Tells the router whether the server computes responses without a connection: the model must stay
// loaded. Any thread.
class BackgroundReport {
 public:
  explicit BackgroundReport(const ServiceManager& manager) : manager_(manager) {}

  void add(int change) {
    const MutexLock lock(mutex_);  // also while sending: the newest state must come last
    const int before = std::exchange(n_, n_ + change);
    if ((before == 0) != (n_ == 0)) manager_.notify(fmt::format("{}={}", kBackgroundVariable, n_));
  }

 private:
  const ServiceManager& manager_;
  Mutex mutex_;
  int n_ GUARDED_BY(mutex_) = 0;
};

// Serves the model of `options` on a bound socket until a signal ends it.
Result<int> serve_model(ServeOptions options, const ListenSocket& socket,
                        const ServiceManager& manager, Parent parent) {
  const auto& keys = options.server.api_keys;
  TRY(check_tiers(options));
  TRY_ASSIGN(const auto tiers, options.tiers.open(keys ? mark_key_of(*keys) : ""));
  TRY_ASSIGN(const auto kv_events, options.kv_events.start());
  std::unique_ptr<ResponseFile> responses;
  if (!options.tiers.disk.empty()) {
    responses = ResponseFile::open_or_warn(options.tiers.disk + "/responses.sqlite");
    options.server.responses = responses.get();
    options.serving.chat.answer_folder = options.tiers.disk;
  }
  if (!options.chat_template_file.empty()) {
    TRY_ASSIGN(options.serving.chat.chat_template, read_chat_template(options.chat_template_file));
  }
  EngineOptions engine_options{.max_running = options.max_running,
                               .max_queue = options.max_queue,
                               .page_log = kv_events.get(),
                               .tiers = tiers.places(),
                               .speculation = options.speculation.options};
  TRY_ASSIGN(engine_options.sharing, sharing_of(options.share, options.server.api_keys));
  if (options.server.api_keys) engine_options.tenants = tenant_marks(*options.server.api_keys);
  if (options.itl_target > Duration::zero()) engine_options.itl_target = options.itl_target;
  TRY_ASSIGN(const auto instance, load(options, engine_options, socket, manager));
  options.server.version = build_info().version;
  options.server.memory_limit_bytes = options.request_memory;
  options.server.prices = prices_of(options);
  Interrupts::catch_first();
  BackgroundReport background(manager);
  if (parent == Parent::kRouter)
    options.server.on_background = [&background](int n) { background.add(n); };
  TRY_ASSIGN(const auto server, Server::start(instance->service(), options.server, socket));
  const std::string address = address_of(options.server, socket);
  log::info("listening on {}", address);
  TRY_ASSIGN(const auto watchdog, watch(manager, *instance));
  manager.notify(fmt::format("{}={}\nREADY=1\nSTATUS=serving {} on {}", kContextVariable,
                             instance->service().card().n_ctx_max, printable(options.model.model),
                             address));
  while (!Interrupts::wait()) {
  }
  manager.notify("STOPPING=1\nSTATUS=draining");
  drain(*server, *instance, tiers.end_time());
  if (parent == Parent::kRouter) report_counters(manager, server->counters());
  log::info("stopped");
  return kExitOk;
}

// Returns the stored models as models of a router.
StoredRouterModels stored_router_models(const HubOptions& hub, const RouterOptions& options,
                                        const std::vector<ModelSection>& sections,
                                        const Flags& flags) {
  const auto store = std::make_shared<ModelStore>(hub);
  const auto read = [store, &options, &sections, flags,
                     is_first = true]() mutable -> Result<std::vector<RouterModel>> {
    std::vector<NamedModel> named;
    for (const StoredPath& model : store->paths()) named.push_back({model.path, model.name});
    if (is_first && named.empty())
      return fail(ErrorCode::kInvalidArgument,
                  "kvik serve needs MODEL or --models DIR: no model is stored on this machine "
                  "(kvik pull NAME downloads one)");
    // A section's model may be removed later, and come back.
    const auto unmatched = is_first ? UnmatchedSection::kError : UnmatchedSection::kIgnored;
    TRY_ASSIGN(auto models, router_models(std::move(named), options, sections, flags, unmatched));
    TRY(check_server_flags(flags.given(), models));
    is_first = false;
    return models;
  };
  return {.version = [store] { return store->version(); }, .read = read};
}

Result<int> serve(ServeOptions options, CommandLine& line) {
  const ServiceManager manager(take_environment);
  auto hub = hub_options();
  std::unique_ptr<ModelLibrary> library;
  // A router answers requests about stored models itself.
  const auto parent =
      environment("LISTEN_FDNAMES") == kRouterSocketName ? Parent::kRouter : Parent::kOther;
  if (hub && parent != Parent::kRouter) library = make_model_library(*hub, fit_of_model);
  options.server.model_library = library.get();
  if (!hub) log::warn("models cannot be downloaded: {}", hub.error().message);
  const Flags flags = line.chosen_flags();
  const auto& sections = line.model_sections();
  std::vector<NamedModel> named;
  if (!options.model.model.empty()) named.push_back({options.model.model, options.model.name});
  const bool serves_stored = named.empty() && !options.router.name_models(sections);
  const bool has_router = serves_stored || options.router.is_wanted(sections);
  if (has_router && options.kv_events.is_wanted())
    return fail(ErrorCode::kUnsupported, "--kv-events needs a server of one model");
  std::unique_ptr<RouterList> models;
  if (serves_stored) {
    if (!hub) return std::unexpected(hub.error());
    TRY_ASSIGN(models,
               RouterList::follow(stored_router_models(*hub, options.router, sections, flags)));
  } else if (has_router) {
    TRY_ASSIGN(auto given, router_models(std::move(named), options.router, sections, flags,
                                         UnmatchedSection::kError));
    TRY(check_server_flags(flags.given(), given));
    models = std::make_unique<RouterList>(std::move(given));
  }
  TRY_ASSIGN(const ListenSocket socket, bind(options));
  if (!has_router) {
    const auto code = serve_model(std::move(options), socket, manager, parent);
    if (!code)
      manager.notify(fmt::format("{}={}\nSTATUS=failed: {}", kErrorVariable,
                                 std::to_underlying(code.error().code), code.error().message));
    return code;
  }
  options.server.memory_limit_bytes = options.request_memory;
  return serve_router({.server = std::move(options.server),
                       .options = options.router,
                       .models = *models,
                       .flags = flags.given(),
                       .api_keys = std::move(options.api_keys),
                       .disk = options.tiers.disk,
                       .disk_bytes = options.tiers.disk_bytes,
                       .plan = plan_server,
                       .manager = manager},
                      socket);
}

}  // namespace

void add_serve(CommandLine& line) {
  auto options = std::make_shared<ServeOptions>();
  Flags flags = line.add("serve", "Serve the OpenAI and Anthropic APIs and a web page over HTTP",
                         [options, &line] { return finish(serve(*options, line)); });
  add_serve_flags(flags, *options);
  flags.examples({
      "kvik serve model.gguf --ctx 16k --kv-memory 8GiB --disk ~/.cache/kvik",
      "kvik serve --models ~/models --memory 16GiB --keep-alive 10min",
      "kvik serve model.gguf --host 0.0.0.0 --api-key-file keys.txt --tls-cert cert.pem --tls-key "
      "key.pem",
  });
}

}  // namespace kvik
