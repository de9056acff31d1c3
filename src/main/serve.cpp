#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/quantity.h"
#include "engine/engine_thread.h"
#include "host/planned_load.h"
#include "main/api_keys.h"
#include "main/commands.h"
#include "main/disk_options.h"
#include "main/exit_code.h"
#include "main/interrupts.h"
#include "main/model_flags.h"
#include "server/server.h"
#include "service/service.h"

namespace kvik {
namespace {

constexpr std::chrono::seconds kDrainTime{30};

struct ServeOptions {
  ModelOptions model;
  ServerOptions server;
  DiskOptions disk;
  uint64_t kv_budget_bytes = uint64_t{4} << 30;
  uint32_t max_queue = EngineOptions{}.max_queue;
  uint32_t max_running = EngineOptions{}.max_running;
  Duration itl_target = std::chrono::milliseconds(50);
  std::optional<double> price_input, price_cached, price_output;  // of a million tokens
  std::string api_key_file;
  TlsFiles tls;
  bool allow_no_key = false;
};

// What is found costs as much as what is computed, unless told otherwise.
std::optional<Prices> prices_of(const ServeOptions& options) {
  if (!options.price_input && !options.price_cached && !options.price_output) return std::nullopt;
  const double input = options.price_input.value_or(0);
  return Prices{.input = input,
                .cached = options.price_cached.value_or(input),
                .output = options.price_output.value_or(0)};
}

// No new work; what runs is finished within kDrainTime, or until a second signal.
void drain(Server& server, EngineThread& engine) {
  log::info("draining: no new requests, up to {} s for those that run; a second signal stops now",
            kDrainTime.count());
  server.stop_accepting();
  std::thread waiter([&] {
    engine.drain(kDrainTime);
    Interrupts::notify();
  });
  const bool in_a_hurry = Interrupts::wait();
  server.stop(in_a_hurry ? Duration::zero() : Duration(std::chrono::seconds(2)));
  waiter.join();
}

Result<int> serve(ServeOptions options) {
  if (!options.api_key_file.empty()) {
    TRY_ASSIGN(options.server.api_keys, read_api_keys(options.api_key_file));
  }
  if (!is_loopback(options.server.host) && !options.server.api_keys && !options.allow_no_key) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--host {} is open to others: give --api-key-file, or --allow-no-key",
                            options.server.host));
  }
  if (options.tls.certificate.empty() != options.tls.key.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "--tls-cert and --tls-key belong together: one of them is missing");
  }
  if (!options.tls.certificate.empty()) options.server.tls = options.tls;
  TRY_ASSIGN(const auto disk, options.disk.open());
  EngineOptions engine_options{.kv_budget_bytes = options.kv_budget_bytes,
                               .kv_type = options.model.kv_type,
                               .n_ctx_max = static_cast<uint32_t>(options.model.n_ctx),
                               .max_running = options.max_running,
                               .max_queue = options.max_queue,
                               .tier = disk.get()};
  if (options.itl_target > Duration::zero()) engine_options.itl_target = options.itl_target;
  TRY_ASSIGN(LoadedModel loaded, load_with_plan(options.model, engine_options));
  const ModelConfig config = loaded.model->config();
  log::info("{}: {} of weights packed for {}", options.model.model,
            format_bytes(loaded.model->weight_bytes()), loaded.backend->name());
  const SteadyClock clock;
  TRY_ASSIGN(auto engine,
             Engine::create(std::move(loaded.model), *loaded.backend, engine_options, clock));
  const EngineLimits limits = engine->limits();
  log::info("KV cache: {} as {}, {} tokens; context {}", format_bytes(options.kv_budget_bytes),
            name_of(options.model.kv_type), limits.kv_tokens, limits.n_ctx_max);
  EngineThread engine_thread(std::move(engine));
  Service service(*loaded.tokenizer, engine_thread,
                  {.id = model_id(options.model.model),
                   .architecture = config.architecture,
                   .created_s = static_cast<uint64_t>(std::time(nullptr)),
                   .n_ctx_max = limits.n_ctx_max,
                   .n_ctx_train = config.n_ctx_train,
                   .n_vocab = config.n_vocab,
                   .model_dim = config.model_dim,
                   .chat_template = std::string(loaded.tokenizer->chat_template())});
  options.server.version = KVIK_VERSION;
  options.server.prices = prices_of(options);
  Interrupts::catch_them();
  TRY_ASSIGN(const auto server, Server::start(service, options.server));
  log::info("listening on {}://{}:{}", options.server.tls ? "https" : "http", options.server.host,
            server->port());
  while (!Interrupts::wait()) {
  }
  drain(*server, engine_thread);
  log::info("stopped");
  return kExitOk;
}

// What it may take, and how it shares.
void add_limits(Flags& flags, ServeOptions& options) {
  flags.add({
      {.name = "--host",
       .to = &options.server.host,
       .help = "address to listen on",
       .shows_default = true},
      {.name = "--port",
       .to = &options.server.port,
       .help = "0: any free one",
       .shows_default = true},
      {.name = "--kv-memory",
       .to = as_bytes(options.kv_budget_bytes),
       .help = "memory of the KV cache, all users together (default: 4GiB)"},
      {.name = "--max-connections",
       .to = &options.server.max_connections,
       .help = "open at the same time; more are answered 503",
       .bounds = Between{1, 1'000'000},
       .shows_default = true},
      {.name = "--max-queue",
       .to = &options.max_queue,
       .help = "waiting requests; more are answered 429",
       .bounds = Between{1, 1'000'000},
       .shows_default = true},
      {.name = "--max-running",
       .to = &options.max_running,
       .help = "sequences computed together",
       .bounds = Between{1, 4096},
       .shows_default = true},
      {.name = "--itl-target",
       .to = as_duration(options.itl_target),
       .help = "time from one token to the next that prompts must leave to those who read; 0: they "
               "need not (default: 50ms)"},
  });
}

// Who may come in, and what is written down of them.
void add_doors(Flags& flags, ServeOptions& options) {
  constexpr Between<double> kPrices = {0.0, 1e9};
  flags.add({
      {.name = "--api-key-file",
       .to = &options.api_key_file,
       .help = "one KEY [NAME [SALT]] per line; clients must send a key"},
      {.name = "--access-log",
       .to = &options.server.access_log,
       .help = "file for one JSON line a request; -: stdout"},
      {.name = "--tls-cert",
       .to = &options.tls.certificate,
       .help = "PEM file of the certificate and its chain: HTTPS instead of HTTP"},
      {.name = "--tls-key",
       .to = &options.tls.key,
       .help = "PEM file of the certificate's private key"},
      {.name = "--price-input",
       .to = &options.price_input,
       .help = "of a million prompt tokens: answers and /metrics tell what they cost",
       .bounds = kPrices},
      {.name = "--price-cached",
       .to = &options.price_cached,
       .help = "of those found in the cache (default: the same)",
       .bounds = kPrices},
      {.name = "--price-output",
       .to = &options.price_output,
       .help = "of a million generated tokens",
       .bounds = kPrices},
      {.name = "--allow-no-key",
       .to = &options.allow_no_key,
       .help = "listen on a public address without a key"},
  });
}

}  // namespace

void add_serve(CommandLine& line) {
  auto options = std::make_shared<ServeOptions>();
  Flags flags = line.add("serve", "the HTTP server (the API of OpenAI and of Anthropic)",
                         [options] { return finish(serve(*options)); });
  add_model_flags(flags, options->model);
  add_limits(flags, *options);
  options->disk.add_to(flags);
  add_doors(flags, *options);
}

}  // namespace kvik
