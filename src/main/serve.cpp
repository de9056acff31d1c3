#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/quantity.h"
#include "host/build_info.h"
#include "host/instance.h"
#include "main/api_keys.h"
#include "main/commands.h"
#include "main/disk_options.h"
#include "main/exit_code.h"
#include "main/interrupts.h"
#include "main/model_flags.h"
#include "server/server.h"

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
                               .max_running = options.max_running,
                               .max_queue = options.max_queue,
                               .tier = disk.get()};
  if (options.itl_target > Duration::zero()) engine_options.itl_target = options.itl_target;
  TRY_ASSIGN(LoadedModel loaded, load_model(options.model, engine_options));
  log::info("{}: {} of weights packed for {}", options.model.model,
            format_bytes(loaded.model->weight_bytes()), loaded.backend->name());
  TRY_ASSIGN(const auto instance, Instance::create(std::move(loaded), engine_options));
  const EngineLimits limits = instance->engine().limits();
  log::info("KV cache: {} as {}, {} tokens; context {}", format_bytes(options.kv_budget_bytes),
            name_of(options.model.kv_type), limits.kv_tokens, limits.n_ctx_max);
  options.server.version = build_info().version;
  options.server.prices = prices_of(options);
  Interrupts::catch_them();
  TRY_ASSIGN(const auto server, Server::start(instance->service(), options.server));
  log::info("listening on {}://{}:{}", options.server.tls ? "https" : "http", options.server.host,
            server->port());
  while (!Interrupts::wait()) {
  }
  drain(*server, instance->engine());
  log::info("stopped");
  return kExitOk;
}

// What it may take, and how it shares.
void add_limits(Flags& flags, ServeOptions& options) {
  flags.add({
      Flag("--host", &options.server.host, "address to listen on").with_default(),
      Flag("--port", &options.server.port, "0: any free one").with_default(),
      {"--kv-memory", as_bytes(options.kv_budget_bytes),
       "memory of the KV cache, all users together (default: 4GiB)"},
      Flag("--max-connections", &options.server.max_connections,
           "open at the same time; more are answered 503")
          .between(1, 1'000'000)
          .with_default(),
      Flag("--max-queue", &options.max_queue, "waiting requests; more are answered 429")
          .between(1, 1'000'000)
          .with_default(),
      Flag("--max-running", &options.max_running, "sequences computed together")
          .between(1, 4096)
          .with_default(),
      {"--itl-target", as_duration(options.itl_target),
       "time from one token to the next that prompts must leave to those who read; 0: they "
       "need not (default: 50ms)"},
  });
}

// Who may come in, and what is written down of them.
void add_doors(Flags& flags, ServeOptions& options) {
  flags.add({
      {"--api-key-file", &options.api_key_file,
       "one KEY [NAME [SALT]] per line; clients must send a key"},
      {"--access-log", &options.server.access_log, "file for one JSON line a request; -: stdout"},
      {"--tls-cert", &options.tls.certificate,
       "PEM file of the certificate and its chain: HTTPS instead of HTTP"},
      {"--tls-key", &options.tls.key, "PEM file of the certificate's private key"},
      Flag("--price-input", &options.price_input,
           "of a million prompt tokens: answers and /metrics tell what they cost")
          .between(0.0, 1e9),
      Flag("--price-cached", &options.price_cached,
           "of those found in the cache (default: the same)")
          .between(0.0, 1e9),
      Flag("--price-output", &options.price_output, "of a million generated tokens")
          .between(0.0, 1e9),
      {"--allow-no-key", &options.allow_no_key, "listen on a public address without a key"},
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
