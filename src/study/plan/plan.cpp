#include "study/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "engine/memory_plan.h"
#include "format/synthetic/synthetic.h"
#include "host/available_memory.h"
#include "host/load_model.h"
#include "study/plan/fit_table.h"
#include "study/plan/type_sizes.h"

namespace kvik {
namespace {

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

std::string as_json(const Plan& plan, const TypePlan& p) {
  std::string out = fmt::format(
      "{{\"ctx\":{},\"users\":{},\"kv_type\":\"{}\",\"weights_bytes\":{},"
      "\"kv_bytes_per_token\":{},\"kv_bytes_per_user\":{},\"kv_bytes_total\":{},"
      "\"buffers_bytes\":{},\"total_bytes\":{},\"memory_bytes\":{},\"fits\":{},"
      "\"users_that_fit\":{},\"buffers\":{{",
      plan.n_ctx, plan.n_users, name_of(p.type), p.memory.weights_bytes, p.kv_bytes_per_token,
      p.kv_bytes_per_user, p.kv_bytes_total, p.memory.buffers_bytes(), p.memory.total_bytes(),
      plan.memory_bytes, p.fits, p.users_that_fit);
  for (const MemoryPlan::Part& part : p.memory.buffers) {
    out += fmt::format("{}\"{}\":{}", &part == p.memory.buffers.data() ? "" : ",", part.name,
                       part.n_bytes);
  }
  out += fmt::format("}},\"weights_by_type\":{}}}\n", type_sizes_json(plan.sizes));
  return out;
}

std::string as_table(const Plan& plan, const TypePlan& chosen) {
  std::string out =
      fmt::format("weights  {:>12}  packed\n", format_bytes(chosen.memory.weights_bytes));
  out += fmt::format("buffers  {:>12}  ", format_bytes(chosen.memory.buffers_bytes()));
  for (const MemoryPlan::Part& part : chosen.memory.buffers) {
    out += fmt::format("{}{} {}", &part == chosen.memory.buffers.data() ? "" : ", ", part.name,
                       format_bytes(part.n_bytes));
  }
  out += fmt::format("\nmemory   {:>12}\n\n", format_bytes(plan.memory_bytes));
  out += fmt::format("{} of {} tokens each\n",
                     plan.n_users == 1 ? "one user" : fmt::format("{} users", plan.n_users),
                     plan.n_ctx);
  out += fmt::format("{:<8}{:>14}{:>14}{:>14}{:>14}  {:<6}{:>16}\n", "KV type", "per token",
                     "per user", "all users", "with weights", "fits", "users that fit");
  for (const TypePlan& p : plan.by_type) {
    out += fmt::format("{:<8}{:>14}{:>14}{:>14}{:>14}  {:<6}{:>16}\n", name_of(p.type),
                       format_bytes(p.kv_bytes_per_token), format_bytes(p.kv_bytes_per_user),
                       format_bytes(p.kv_bytes_total), format_bytes(p.memory.total_bytes()),
                       p.fits ? "yes" : "no", p.users_that_fit);
  }
  out += fmt::format("\n{}", type_sizes_text(plan.sizes, plan.memory_bytes));
  return out;
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
Result<FitTable> fit_table(const PlanOptions& options, const Plan& plan) {
  TRY_ASSIGN(const auto backend, make_backend(options.model));
  TRY_ASSIGN(const auto variants, weight_variants(spec_of(options.model.model), *backend));
  return make_fit_table(plan.config, variants, *backend, plan.n_ctx);
}

}  // namespace

Result<PlanReport> plan_model(const PlanOptions& options) {
  TRY_ASSIGN(const Plan plan, make_plan(options));
  const auto chosen = std::ranges::find(plan.by_type, options.model.kv_type, &TypePlan::type);
  PlanReport report{.text = options.as_json ? as_json(plan, *chosen) : as_table(plan, *chosen)};
  if (options.as_json && !options.wants_svg) return report;
  TRY_ASSIGN(const FitTable table, fit_table(options, plan));
  if (!options.as_json) report.text += "\n" + fit_text(table);
  if (options.wants_svg) report.svg = fit_svg(table);
  return report;
}

}  // namespace kvik
