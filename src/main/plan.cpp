#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "engine/memory_plan.h"
#include "format/synthetic/synthetic.h"
#include "main/available_memory.h"
#include "main/commands.h"
#include "main/fit_table.h"
#include "main/model_options.h"
#include "main/type_sizes.h"

namespace kvik {
namespace {

struct PlanOptions {
  ModelOptions model;
  uint64_t n_users = 1;
  uint64_t memory_bytes = 0;  // 0: this machine's
  bool as_json = false;
  std::string svg;  // a file to draw into; empty: none
};

// One KV type's share of the answer.
struct TypePlan {
  KvType type;
  uint64_t kv_bytes_per_token, kv_bytes_per_user, kv_bytes_total;
  MemoryPlan memory;
  bool fits;
  uint64_t users_that_fit;
};

struct Plan {
  ModelConfig config;
  uint64_t n_ctx, n_users, memory_bytes;
  std::vector<TypePlan> by_type;
  std::vector<TypeSize> sizes;  // of the weights' file, by type
};

// A preset may stand without "synthetic:", with a type behind it or not.
std::string spec_of(const std::string& model) {
  const std::string name = model.substr(0, model.find(':'));
  const bool is_preset = std::ranges::any_of(
      model_presets(), [&](const ModelPreset& preset) { return name == preset.name; });
  return is_preset ? "synthetic:" + model : model;
}

// The engine that `kvik serve` would make with a budget for these users.
TypePlan plan_type(const Plan& plan, const WeightPlan& weights, Backend& backend, KvType type) {
  const auto bytes_of = [&](uint64_t n) {
    return kv_bytes_of_sequence(plan.config, backend, type, n);
  };
  const uint64_t all_layers = backend.page_bytes({.type = type,
                                                  .n_layers = plan.config.n_layers,
                                                  .n_kv_heads = plan.config.n_kv_heads,
                                                  .head_dim = plan.config.head_dim});
  const uint64_t per_user = bytes_of(plan.n_ctx);
  const auto memory_for = [&](uint64_t n_users) {
    return plan_memory(plan.config, weights, backend,
                       {.kv_budget_bytes = per_user * n_users,
                        .kv_type = type,
                        .n_ctx_max = static_cast<uint32_t>(plan.n_ctx)});
  };
  const MemoryPlan memory = memory_for(plan.n_users);
  const uint64_t fixed = memory_for(0).total_bytes();
  const uint64_t left = plan.memory_bytes - std::min(plan.memory_bytes, fixed);
  return {.type = type,
          .kv_bytes_per_token = all_layers / kPageTokens,
          .kv_bytes_per_user = per_user,
          .kv_bytes_total = memory.kv_bytes,
          .memory = memory,
          .fits = memory.total_bytes() <= plan.memory_bytes,
          .users_that_fit = left / (memory_for(1).total_bytes() - fixed)};
}

Result<Plan> make_plan(const PlanOptions& options) {
  TRY_ASSIGN(const auto backend, make_backend(options.model));
  TRY_ASSIGN(const auto source, open_model(spec_of(options.model.model)));
  Plan plan;
  TRY_ASSIGN(plan.config, read_config(source->metadata()));
  TRY_ASSIGN(const WeightPlan weights, plan_weights(*source, *backend));
  plan.n_ctx = options.model.n_ctx ? options.model.n_ctx : plan.config.n_ctx_train;
  plan.n_users = options.n_users;
  if (plan.n_ctx > UINT32_MAX || plan.n_users == 0 || plan.n_users > (1u << 20)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} users with a context of {}, expected 1 to 2^20 users and less "
                            "than 2^32 tokens",
                            plan.n_users, plan.n_ctx));
  }
  plan.memory_bytes =
      options.memory_bytes ? options.memory_bytes : machine_memory_bytes().value_or(0);
  plan.sizes = type_sizes(*source);
  for (const KvType type : kAllKvTypes) {
    plan.by_type.push_back(plan_type(plan, weights, *backend, type));
  }
  return plan;
}

void print_json(const Plan& plan, const TypePlan& p) {
  fmt::print(
      "{{\"ctx\":{},\"users\":{},\"kv_type\":\"{}\",\"weights_bytes\":{},"
      "\"kv_bytes_per_token\":{},\"kv_bytes_per_user\":{},\"kv_bytes_total\":{},"
      "\"buffers_bytes\":{},\"total_bytes\":{},\"memory_bytes\":{},\"fits\":{},"
      "\"users_that_fit\":{},\"buffers\":{{",
      plan.n_ctx, plan.n_users, name_of(p.type), p.memory.weights_bytes, p.kv_bytes_per_token,
      p.kv_bytes_per_user, p.kv_bytes_total, p.memory.buffers_bytes(), p.memory.total_bytes(),
      plan.memory_bytes, p.fits, p.users_that_fit);
  for (const MemoryPlan::Part& part : p.memory.buffers) {
    fmt::print("{}\"{}\":{}", &part == p.memory.buffers.data() ? "" : ",", part.name, part.n_bytes);
  }
  fmt::print("}},\"weights_by_type\":{}}}\n", type_sizes_json(plan.sizes));
}

void print_table(const Plan& plan, const TypePlan& chosen) {
  fmt::print("weights  {:>12}  packed\n", format_bytes(chosen.memory.weights_bytes));
  fmt::print("buffers  {:>12}  ", format_bytes(chosen.memory.buffers_bytes()));
  for (const MemoryPlan::Part& part : chosen.memory.buffers) {
    fmt::print("{}{} {}", &part == chosen.memory.buffers.data() ? "" : ", ", part.name,
               format_bytes(part.n_bytes));
  }
  fmt::print("\nmemory   {:>12}\n\n", format_bytes(plan.memory_bytes));
  fmt::print("{} of {} tokens each\n",
             plan.n_users == 1 ? "one user" : fmt::format("{} users", plan.n_users), plan.n_ctx);
  fmt::print("{:<8}{:>14}{:>14}{:>14}{:>14}  {:<6}{:>16}\n", "KV type", "per token", "per user",
             "all users", "with weights", "fits", "users that fit");
  for (const TypePlan& p : plan.by_type) {
    fmt::print("{:<8}{:>14}{:>14}{:>14}{:>14}  {:<6}{:>16}\n", name_of(p.type),
               format_bytes(p.kv_bytes_per_token), format_bytes(p.kv_bytes_per_user),
               format_bytes(p.kv_bytes_total), format_bytes(p.memory.total_bytes()),
               p.fits ? "yes" : "no", p.users_that_fit);
  }
  fmt::print("\n{}", type_sizes_text(plan.sizes, plan.memory_bytes));
}

// A preset or random model without a type may be stored in any: those that people use.
Result<std::vector<WeightVariant>> weight_variants(const std::string& spec, Backend& backend) {
  std::vector<WeightVariant> variants;
  const bool any_type = spec.starts_with("synthetic:") && std::ranges::count(spec, ':') == 1;
  for (const char* type : {"bf16", "q8_0", "q4_k_m"}) {
    TRY_ASSIGN(const auto source, open_model(any_type ? fmt::format("{}:{}", spec, type) : spec));
    TRY_ASSIGN(WeightPlan weights, plan_weights(*source, backend));
    variants.push_back({any_type ? type : "as it is", std::move(weights)});
    if (!any_type) break;
  }
  return variants;
}

// Which memory holds how many users and how much context, for other types of weights and pages.
Result<void> show_fit(const PlanOptions& options, const Plan& plan) {
  TRY_ASSIGN(const auto backend, make_backend(options.model));
  TRY_ASSIGN(const auto variants, weight_variants(spec_of(options.model.model), *backend));
  const FitTable table = make_fit_table(plan.config, variants, *backend, plan.n_ctx);
  if (!options.as_json) fmt::print("\n{}", fit_text(table));
  if (options.svg.empty()) return {};
  std::ofstream file(options.svg);
  file << fit_svg(table);
  if (!file.flush()) {
    return fail(ErrorCode::kIo, fmt::format("cannot write '{}'", options.svg));
  }
  return {};
}

Result<int> show_plan(const PlanOptions& options) {
  TRY_ASSIGN(const Plan plan, make_plan(options));
  const auto chosen = std::ranges::find(plan.by_type, options.model.kv_type, &TypePlan::type);
  if (options.as_json) {
    print_json(plan, *chosen);
  } else {
    print_table(plan, *chosen);
  }
  if (!options.as_json || !options.svg.empty()) TRY(show_fit(options, plan));
  return kExitOk;
}

}  // namespace

Command add_plan(CLI::App& app) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App& command =
      *app.add_subcommand("plan", "what fits: weights, KV bytes per token and user, by KV type");
  options->model.add_to(command);
  command.get_option("MODEL")->description(
      "a .gguf file, a Hugging Face folder, 'demo', synthetic:PRESET[:TYPE] or a preset's name; no "
      "weight is read");
  add_count(command, "--users", options->n_users, "conversations at a time (default: 1)");
  add_bytes(command, "--memory", options->memory_bytes,
            "plan for so much (default: this machine's)");
  command.add_flag("--json", options->as_json, "one object, of the KV type that --kv-type names");
  command.add_option("--svg", options->svg, "draw what fits which memory into this file")
      ->type_name("FILE");
  return [options]() -> int {
    const Result<int> code = show_plan(*options);
    return code ? *code : report(code.error());
  };
}

}  // namespace kvik
