#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/file/input_file.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/process/interrupts.h"
#include "base/process/service_manager.h"
#include "base/process/watchdog.h"
#include "base/quantity.h"
#include "host/available_memory.h"
#include "host/build_info.h"
#include "host/instance.h"
#include "host/load_draft.h"
#include "main/api_keys.h"
#include "main/commands.h"
#include "main/exit_code.h"
#include "main/kv_event_options.h"
#include "main/model_flags.h"
#include "main/speculation_flags.h"
#include "main/tier_options.h"
#include "server/dialects/responses/response_file.h"
#include "server/loading_server.h"
#include "server/server.h"
#include "service/tools/tool_format.h"
#include "template/chat_template.h"

namespace kvik {
namespace {

constexpr std::chrono::seconds kDrainTime{30};

// The minimum context for coding agents, most of which their instructions and tools use.
constexpr uint32_t kAgentTokens = 32 << 10;

// Returns 4 GiB, or half of the machine's memory if that is less.
uint64_t default_kv_budget() {
  constexpr uint64_t kUsual = uint64_t{4} << 30;
  return std::min(kUsual, machine_memory_bytes().value_or(kUsual) / 2);
}

struct ServeOptions {
  ModelOptions model;
  ServerOptions server;
  TierOptions tiers;
  KvEventFlags kv_events;
  SpeculationFlags speculation;
  ServingOptions serving;
  std::string chat_template_file;
  uint64_t kv_budget_bytes = default_kv_budget();
  std::optional<uint64_t> request_memory;
  uint32_t max_queue = EngineOptions{}.max_queue;
  uint32_t max_running = EngineOptions{}.max_running;
  Duration itl_target = std::chrono::milliseconds(50);
  std::optional<double> price_input, price_cached, price_output;  // per million tokens
  std::string api_key_file;
  std::vector<std::string> api_keys;
  std::string share;  // empty: two if there are API keys, otherwise all
  TlsFiles tls;
  bool allow_no_key = false;
};

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

// Reads and checks a chat template. Errors: kNotFound, kCorrupt (the template does not parse).
Result<std::string> read_template(const std::string& path) {
  TRY_ASSIGN(const InputFile file, InputFile::open(path));
  std::string source(file.size(), '\0');
  TRY(file.read(0, std::as_writable_bytes(std::span(source))));
  const auto parsed = ChatTemplate::parse(source);
  if (parsed) return source;
  return fail(parsed.error().code,
              fmt::format("--chat-template {}: {}", path, parsed.error().message));
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
  TRY_ASSIGN(const std::optional<int> inherited, inherited_socket());
  if (!inherited) return std::nullopt;
  TRY_ASSIGN(ListenSocket socket, ListenSocket::adopt(FileDescriptor(*inherited)));
  options.host = socket.is_unix() ? "localhost" : socket.host();
  options.port = socket.port();
  return socket;
}

// Sends signs of life for as long as the engine thread computes or answers.
Result<std::unique_ptr<Watchdog>> watch(const ServiceManager& manager, EngineThread& engine) {
  return Watchdog::start(manager, [&engine, last = uint64_t{0}]() mutable {
    return std::exchange(last, engine.probe_progress()) != last;
  });
}

// Rejects new requests and lets running ones finish within kDrainTime. A second signal ends the
// process at once, and a hanging tier ends it kTierTime after the last request.
void drain(Server& server, EngineThread& engine) {
  log::info(
      "draining: no new requests, up to {} s for those that run and {} s for the tiers; a second "
      "signal ends the process now",
      kDrainTime.count(), kTierTime.count());
  server.stop_accepting();
  engine.drain(kDrainTime);
  Interrupts::end_within(kTierTime, kExitOk);
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

// Logs the capacity of the cache, and a message if it is less than --ctx or less than coding agents
// need.
void log_context(const ServeOptions& options, const ModelCard& card, uint64_t budget_for_ctx) {
  log::info("KV cache: {} as {}, {} tokens; context {}", format_bytes(options.kv_budget_bytes),
            name_of(options.model.kv_type), card.kv_tokens, card.n_ctx_max);
  if (card.n_ctx_max < options.model.n_ctx) {
    log::warn("--ctx {} is cut to {}: --kv-memory {} holds no more tokens, and {} would",
              options.model.n_ctx, card.n_ctx_max, format_bytes(options.kv_budget_bytes),
              format_bytes(budget_for_ctx));
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
Result<std::unique_ptr<Instance>> load(ServeOptions& options, const EngineOptions& engine_options,
                                       const ListenSocket& socket, const ServiceManager& manager) {
  std::unique_ptr<LoadingServer> waiting;
  if (!socket.is_adopted()) {
    TRY_ASSIGN(waiting, LoadingServer::start(socket, options.server));
    log::info("{} is bound, and /health answers 503 until the model is loaded",
              address_of(options.server, socket));
  }
  StartReport report(manager);
  options.model.on_progress = [&](uint64_t n_done, uint64_t n_all) {
    if (waiting) waiting->show(n_done, n_all);
    report.show(n_done, n_all);
  };
  TRY_ASSIGN(LoadedModel loaded, load_model(options.model, engine_options));
  if (!options.speculation.draft.empty())
    TRY(load_draft(options.speculation.draft, loaded, options.max_running));
  log::info("{}: {} of weights packed for {}", options.model.model,
            format_bytes(loaded.model->weight_bytes()), loaded.backend->name());
  options.server.memory_plan = planned_memory(loaded.plan);
  const uint64_t budget_for_ctx =
      loaded.kv().budget(loaded.n_ctx, 1, engine_options.tiers, engine_options.max_running);
  TRY_ASSIGN(auto instance, Instance::create(std::move(loaded), engine_options, options.serving));
  log_context(options, instance->service().card(), budget_for_ctx);
  return instance;
}

Result<int> serve(ServeOptions options) {
  const ServiceManager manager;
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
  TRY(Server::check(options.server));
  // The port is bound before the tiers and the model are opened, so a port in use is an immediate
  // error.
  if (!bound) {
    TRY_ASSIGN(bound, ListenSocket::open(options.server.host, options.server.port));
  }
  const ListenSocket& socket = *bound;
  const auto& keys = options.server.api_keys;
  TRY_ASSIGN(const auto tiers, options.tiers.open(keys ? mark_key_of(*keys) : ""));
  TRY_ASSIGN(const auto kv_events, options.kv_events.start());
  std::unique_ptr<ResponseFile> responses;
  if (!options.tiers.disk.empty()) {
    responses = ResponseFile::open_or_warn(options.tiers.disk + "/responses.sqlite");
    options.server.responses = responses.get();
  }
  if (!options.chat_template_file.empty()) {
    TRY_ASSIGN(options.serving.chat.chat_template, read_template(options.chat_template_file));
  }
  EngineOptions engine_options{.kv_budget_bytes = options.kv_budget_bytes,
                               .max_running = options.max_running,
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
  TRY_ASSIGN(const auto server, Server::start(instance->service(), options.server, socket));
  const std::string address = address_of(options.server, socket);
  log::info("listening on {}", address);
  TRY_ASSIGN(const auto watchdog, watch(manager, instance->engine()));
  manager.notify(
      fmt::format("READY=1\nSTATUS=serving {} on {}", printable(options.model.model), address));
  while (!Interrupts::wait()) {
  }
  manager.notify("STOPPING=1\nSTATUS=draining");
  drain(*server, instance->engine());
  log::info("stopped");
  return kExitOk;
}

void add_cache(Flags& flags, ServeOptions& options) {
  flags.add(
      "Cache",
      {
          {"--kv-memory", as_bytes(options.kv_budget_bytes),
           "memory of the KV cache for all users together (default: 4GiB, or half of the memory of "
           "a machine with less than 8GiB)"},
          {"--overcommit", &options.model.overcommits,
           "start even if the plan needs more memory than this machine has"},
          Flag("--share", &options.share,
               "tenants that may hit a page in the prefix cache. two: the tenant that computed it, "
               "and all tenants once a second one has computed it; all: everyone; key: only the "
               "tenant that computed it (default: two; all without API keys)")
              .one_of({"two", "all", "key"}),
      });
}

void add_scheduling(Flags& flags, ServeOptions& options) {
  flags.add(
      "Scheduling",
      {
          Flag("--max-running", &options.max_running, "maximum number of sequences in a batch")
              .between(1, 4096)
              .with_default(),
          Flag("--max-queue", &options.max_queue,
               "maximum number of waiting requests; more are rejected with 429")
              .between(1, 1'000'000)
              .with_default(),
          {"--itl-target", as_duration(options.itl_target),
           "target inter-token latency of running answers: prefill chunks are made small enough to "
           "meet it; 0: no target (default: 50ms)"},
          {"--request-memory", as_bytes(options.request_memory),
           "memory of request bodies and unsent answers for all users together (default: depends "
           "on --ctx; see kvik plan)"},
      });
}

void add_network(Flags& flags, ServeOptions& options) {
  flags.add("Network",
            {
                Flag("--host", &options.server.host, "address to listen on").with_default(),
                Flag("--port", &options.server.port, "port to listen on; 0: any free port")
                    .with_default(),
                Flag("--max-connections", &options.server.max_connections,
                     "maximum number of open connections; at the limit, a new connection closes "
                     "the one that has been idle longest")
                    .between(1, 1'000'000)
                    .with_default(),
                {"--tls-cert", &options.tls.certificate,
                 "PEM file of the certificate chain; serves HTTPS instead of HTTP"},
                {"--tls-key", &options.tls.key, "PEM file of the certificate's private key"},
            });
}

void add_chat(Flags& flags, ServingOptions& serving, std::string& chat_template_file) {
  std::vector<std::string> formats = {"none"};
  for (const ToolFormat& format : tool_formats()) formats.emplace_back(format.name);
  flags.add(
      "Chat, tools and structured output",
      {
          {"--alias", &serving.aliases,
           "further model name that requests may use; repeatable; *: any name"},
          {"--chat-template", &chat_template_file,
           "file with a Jinja chat template that replaces the model's own"},
          Flag("--tool-format", &serving.chat.tool_format,
               "tool-call parser (default: detected from the chat template); none: tool calls stay "
               "text")
              .one_of(std::move(formats)),
          {"--schema-language",
           Words{.type = "canonical|full",
                 .read =
                     [&serving](const std::string& name) {
                       const auto language = schema_language_named(name);
                       if (!language) return "expected canonical or full, found " + name;
                       serving.chat.schema_language = *language;
                       return std::string();
                     }},
           "JSON documents that a schema allows in answers and tool arguments. canonical: closed "
           "objects, keys in the schema's order, plain numbers; full: all of JSON Schema (default: "
           "canonical)"},
      });
}

void add_adapters(Flags& flags, AdapterOptions& adapters) {
  flags.add(
      "Adapters",
      {
          Flag("--adapter", &adapters.named,
               "LoRA adapter: a PEFT folder or a GGUF file. Requests select it by the model name "
               "NAME or MODEL:NAME; repeatable")
              .called("NAME=PATH[:SCALE],…"),
          {"--adapter-memory", as_bytes(adapters.budget_bytes),
           "memory of adapters; the least recently used are unloaded (default: 1GiB)"},
          {"--adapter-folder", as_path(adapters.folder),
           "folder from which clients may load adapters by POST /v1/adapters (default: none)"},
      });
}

void add_security(Flags& flags, ServeOptions& options) {
  flags.add(
      "Security",
      {
          Flag("--api-key", &options.api_keys,
               "API key that clients must send, with operator rights; repeatable. Other users of "
               "this machine can read it in the process list; KVIK_API_KEY and --api-key-file hide "
               "it")
              .called("KEY,…"),
          {"--api-key-file", &options.api_key_file,
           "file of API keys, one per line: KEY [NAME [SALT]] [operator] [priority]"},
          {"--allow-no-key", &options.allow_no_key, "listen on a public address without API keys"},
          Flag("--allow-host", &options.server.allowed_hosts,
               "host name that requests may address, besides loopback names and --host; *: any")
              .called("NAME,…"),
          Flag("--cors", &options.server.cors_origins,
               "origin of web pages that may send requests, such as https://chat.example; *: any")
              .called("ORIGIN,…"),
      });
}

void add_observability(Flags& flags, ServeOptions& options) {
  flags.add("Observability",
            {
                {"--access-log", &options.server.access_log,
                 "file to which each request adds a line of JSON; -: stdout"},
                Flag("--price-input", &options.price_input,
                     "price of a million prompt tokens; answers and /metrics then state costs")
                    .between(0.0, 1e9),
                Flag("--price-cached", &options.price_cached,
                     "price of a million cached prompt tokens (default: that of --price-input)")
                    .between(0.0, 1e9),
                Flag("--price-output", &options.price_output, "price of a million generated tokens")
                    .between(0.0, 1e9),
            });
  options.kv_events.add_to(flags);
}

}  // namespace

void add_serve(CommandLine& line) {
  auto options = std::make_shared<ServeOptions>();
  Flags flags = line.add("serve", "Serve the OpenAI and Anthropic APIs and a web page over HTTP",
                         [options] { return finish(serve(*options)); });
  add_model_flags(flags, options->model);
  add_cache(flags, *options);
  options->tiers.add_to(flags);
  add_scheduling(flags, *options);
  options->speculation.add_to(flags);
  add_chat(flags, options->serving, options->chat_template_file);
  add_adapters(flags, options->serving.adapters);
  add_network(flags, *options);
  add_security(flags, *options);
  add_observability(flags, *options);
  flags.examples({
      "kvik serve model.gguf --ctx 16k --kv-memory 8GiB --disk ~/.cache/kvik",
      "kvik serve model.gguf --host 0.0.0.0 --api-key-file keys.txt --tls-cert cert.pem --tls-key "
      "key.pem",
  });
}

}  // namespace kvik
