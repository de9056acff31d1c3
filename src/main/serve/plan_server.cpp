#include "main/serve/plan_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "host/footprint.h"
#include "host/load_model.h"
#include "main/exit_code.h"
#include "main/serve/serve_options.h"

namespace kvik {
namespace {

// Plans the process of parsed options.
Result<ServerPlan> plan_options(const ServeOptions& options, uint64_t max_bytes) {
  TRY_ASSIGN(const auto backend, make_backend(options.model));
  TRY_ASSIGN(const auto source, open_model(options.model));
  TRY_ASSIGN(const Footprint footprint, Footprint::of(*source, *backend));
  EngineOptions engine{.kv_type = options.model.kv_type,
                       .n_ctx_max = static_cast<uint32_t>(options.model.n_ctx),
                       .max_running = options.max_running,
                       .speculation = options.speculation.options};
  if (footprint.config().encoder) {
    engine.kv_budget_bytes = 0;
    const uint32_t most = footprint.config().n_ctx_train;
    engine.n_ctx_max = std::min(engine.n_ctx_max, most);
    return ServerPlan{.n_bytes = footprint.plan(engine).total_bytes(),
                      .sets_kv_memory = true,
                      .encoder_ctx = most};
  }
  const MemoryBeside beside = memory_beside(options);
  engine.kv_budget_bytes =
      choose_memory(options.model, engine, beside, footprint, *backend).choice.kv_bytes;
  const auto total = [&] { return footprint.plan(engine).total_bytes() + beside.adapter_bytes; };
  ServerPlan plan{.sets_kv_memory = options.kv_bytes.has_value()};
  if (!plan.sets_kv_memory) {
    constexpr uint64_t kShort = 4096;  // tokens
    const uint64_t least = footprint.kv(engine.kv_type).budget(kShort, 1, {}, engine.max_running);
    const uint64_t too_much = total() - std::min(total(), max_bytes);
    engine.kv_budget_bytes =
        std::max(least, engine.kv_budget_bytes - std::min(engine.kv_budget_bytes, too_much));
  }
  plan.kv_bytes = engine.kv_budget_bytes;
  plan.n_bytes = total();
  return plan;
}

// Parses arguments of `kvik serve`. Errors: kInvalidArgument.
Result<ServeOptions> parse_serve(std::vector<std::string> arguments) {
  ServeOptions options;
  CommandLine line("kvik", "", "");
  Flags flags = line.add("serve", "", [] { return kExitOk; });
  add_serve_flags(flags, options);
  arguments.insert(arguments.begin(), "serve");
  TRY(line.parse(std::move(arguments)));
  return options;
}

}  // namespace

Result<void> check_server_flags(const std::vector<GivenFlag>& for_all,
                                const std::vector<RouterModel>& models) {
  for (const RouterModel& model : models) {
    const auto options = parse_serve(server_arguments(for_all, model));
    if (options) continue;
    return fail(options.error().code,
                fmt::format("the model {}: {}", model.spec.name, options.error().message));
  }
  return {};
}

Result<ServerPlan> plan_server(const std::vector<std::string>& arguments, uint64_t max_bytes) {
  TRY_ASSIGN(const ServeOptions options, parse_serve(arguments));
  return plan_options(options, max_bytes);
}

}  // namespace kvik
