#include "study/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "base/quantity.h"
#include "format/synthetic/synthetic.h"
#include "host/available_memory.h"
#include "host/footprint.h"
#include "host/kv_events/kv_event_publisher.h"
#include "host/load_model.h"
#include "model/recurrent/state_layout.h"
#include "study/page_quality.h"
#include "study/plan/fit_table.h"

namespace kvik {
namespace {

// The plan for one KV type.
struct TypePlan {
  KvType type;
  uint64_t kv_bytes_per_token, kv_bytes_beyond_windows, kv_bytes_per_user;
  uint64_t open_bytes;  // bytes of a user's open pages; 0 if the type has none
  MemoryPlan memory;
  bool fits;
  uint64_t users_that_fit;
};

struct Plan {
  std::string model;
  std::string weights_type;  // type of most bytes of the weights
  bool is_type_assumed;      // true for a preset without a type
  uint64_t n_ctx, n_users, memory_bytes;
  uint64_t state_bytes, adapter_bytes;
  bool has_kv_events;
  uint32_t n_layers, n_recurrent_layers;
  MemoryState memory;       // in which `choice` fits
  MemoryChoice choice;      // of `kvik serve` with automatic settings and the chosen KV type
  std::string choice_text;  // the choice as a sentence
  std::vector<TypePlan> by_type;
  std::vector<TypeSize> sizes;  // file sizes by weight type
};

// Returns the full name of a model. A preset may be given without "synthetic:", with or without a
// type after it.
std::string spec_of(const std::string& model) {
  const std::string name = model.substr(0, model.find(':'));
  const bool is_preset = std::ranges::any_of(
      model_presets(), [&](const ModelPreset& preset) { return name == preset.name; });
  return is_preset ? "synthetic:" + model : model;
}

// Returns the type of most bytes of the weights.
std::string most_used_type(const ModelSource& source) {
  std::map<std::string, uint64_t> bytes_by_type;
  for (const TensorInfo& tensor : source.tensors()) {
    bytes_by_type[name_of(tensor.type)] += tensor.n_bytes;
  }
  const auto most =
      std::ranges::max_element(bytes_by_type, {}, [](const auto& e) { return e.second; });
  return most == bytes_by_type.end() ? "none" : most->first;
}

// Returns whether a name is that of a preset without a weight type.
bool has_no_weight_type(const std::string& spec) {
  return spec.starts_with("synthetic:") && std::ranges::count(spec, ':') == 1;
}

// Plans the engine that `kvik serve` would create with a budget for these users.
TypePlan plan_type(const Plan& plan, const Footprint& footprint, KvType type) {
  const KvFootprint kv = footprint.kv(type);
  MemoryPlan memory = footprint.plan(type, plan.n_ctx, plan.n_users);
  if (plan.adapter_bytes > 0) memory.buffers.push_back({"adapters", plan.adapter_bytes});
  if (plan.has_kv_events) {
    const uint64_t n_pages = memory.kv_bytes / kv.layout.page_bytes;
    memory.buffers.push_back({"KV events", KvEventPublisher::max_bytes(n_pages)});
  }
  const bool fits = memory.total_bytes() <= plan.memory_bytes;
  uint64_t beside = plan.adapter_bytes;
  if (plan.has_kv_events) beside += KvEventPublisher::max_bytes(0);
  const uint64_t left = plan.memory_bytes - std::min(plan.memory_bytes, beside);
  return {.type = type,
          .kv_bytes_per_token = kv.bytes_per_token,
          .kv_bytes_beyond_windows = kv.lasting_bytes_per_token,
          .kv_bytes_per_user =
              kv.bytes_at_once(plan.n_ctx) + plan.state_bytes + kv.layout.open_slot_bytes(),
          .open_bytes = kv.layout.open_slot_bytes(),
          .memory = std::move(memory),
          .fits = fits,
          .users_that_fit = footprint.users_in(type, plan.n_ctx, left)};
}

// Adds the choice that `kvik serve` would make.
void add_choice(const PlanOptions& options, const Footprint& footprint, Backend& backend,
                Plan& plan) {
  plan.memory = options.memory_bytes ? idle_machine(options.memory_bytes) : memory_state(backend);
  MemoryRequest wish;
  wish.adapter_bytes = options.adapter_bytes;
  if (!options.model.chooses_ctx) wish.n_ctx = plan.n_ctx;
  EngineOptions engine;
  engine.kv_type = options.model.kv_type;
  plan.choice = choose_memory(footprint, engine, wish, plan.memory);
  plan.choice_text = describe(plan.choice, wish, plan.memory, footprint.config().n_ctx_train);
}

Result<Plan> make_plan(const PlanOptions& options) {
  TRY_ASSIGN(const auto backend, make_backend(options.model));
  ModelOptions model = options.model;
  model.model = spec_of(model.model);
  TRY_ASSIGN(const auto source, open_model(model));
  TRY_ASSIGN(const Footprint footprint, Footprint::of(*source, *backend));
  const ModelConfig& config = footprint.config();
  if (config.encoder) {
    const MemoryPlan memory = footprint.plan(EngineOptions());
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("{}: this model is an encoder ({}), which has no KV cache to plan; it "
                    "needs {}: weights {}, buffers {}",
                    options.model.model, config.architecture, format_bytes(memory.total_bytes()),
                    format_bytes(memory.weights_bytes), format_bytes(memory.buffers_bytes())));
  }
  Plan plan{.model = config.name,
            .weights_type = most_used_type(*source),
            .is_type_assumed = has_no_weight_type(model.model),
            .n_ctx = options.model.n_ctx ? options.model.n_ctx : config.n_ctx_train,
            .n_users = options.n_users,
            .memory_bytes =
                options.memory_bytes ? options.memory_bytes : machine_memory_bytes().value_or(0),
            .state_bytes = state_layout(config).n_bytes(),
            .adapter_bytes = options.adapter_bytes,
            .has_kv_events = options.has_kv_events,
            .n_layers = config.n_layers,
            .n_recurrent_layers = config.n_state_layers(),
            .memory = {},
            .choice = {},
            .choice_text = {},
            .by_type = {},
            .sizes = type_sizes(*source)};
  if (plan.n_ctx > UINT32_MAX || plan.n_users == 0 || plan.n_users > (1u << 20)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} users with a context of {}, expected 1 to 2^20 users and less "
                            "than 2^32 tokens",
                            plan.n_users, plan.n_ctx));
  }
  for (const KvType type : kAllKvTypes) plan.by_type.push_back(plan_type(plan, footprint, type));
  add_choice(options, footprint, *backend, plan);
  return plan;
}

std::string sizes_json(std::span<const TypeSize> sizes) {
  std::string out = "[";
  for (const TypeSize& size : sizes) {
    out += fmt::format("{}{{\"type\":\"{}\",\"bytes\":{},\"bits_per_weight\":{:.4f}}}",
                       out.size() > 1 ? "," : "", size.type, size.n_bytes, size.bits_per_weight);
  }
  return out + "]";
}

// Returns one line for each type, which states whether it fits in this memory.
std::string sizes_text(std::span<const TypeSize> sizes, uint64_t memory_bytes) {
  std::string out = fmt::format("weights as `kvik quantize` makes them\n{:<8}{:>14}{:>17}  fit\n",
                                "type", "size", "bits a weight");
  for (const TypeSize& size : sizes) {
    out += fmt::format("{:<8}{:>14}{:>17.2f}  {}\n", size.type, format_bytes(size.n_bytes),
                       size.bits_per_weight, size.n_bytes <= memory_bytes ? "yes" : "no");
  }
  return out;
}

std::string as_json(const Plan& plan, const TypePlan& p) {
  std::string out = fmt::format(
      "{{\"ctx\":{},\"users\":{},\"kv_type\":\"{}\",\"weights_bytes\":{},"
      "\"kv_bytes_per_token\":{},\"kv_bytes_per_token_beyond_windows\":{},"
      "\"kv_bytes_per_user\":{},\"state_bytes\":{},\"open_page_bytes\":{},\"kv_bytes_total\":{},"
      "\"buffers_bytes\":{},\"total_bytes\":{},\"memory_bytes\":{},\"fits\":{},"
      "\"users_that_fit\":{},\"kv_quality\":\"{}\",\"kv_divergence\":{},\"buffers\":{{",
      plan.n_ctx, plan.n_users, name_of(p.type), p.memory.weights_bytes, p.kv_bytes_per_token,
      p.kv_bytes_beyond_windows, p.kv_bytes_per_user, plan.state_bytes, p.open_bytes,
      p.memory.kv_bytes, p.memory.buffers_bytes(), p.memory.total_bytes(), plan.memory_bytes,
      p.fits, p.users_that_fit, quality_of(p.type).name, quality_of(p.type).divergence);
  for (const MemoryPlan::Part& part : p.memory.buffers) {
    out += fmt::format("{}\"{}\":{}", &part == p.memory.buffers.data() ? "" : ",", part.name,
                       part.n_bytes);
  }
  out += fmt::format(
      "}},\"auto\":{{\"ctx\":{},\"kv_memory_bytes\":{},\"free_bytes\":{},\"reserve_bytes\":{}}},"
      "\"weights_by_type\":{}}}\n",
      plan.choice.n_ctx, plan.choice.kv_bytes, plan.memory.free_bytes, plan.memory.reserve_bytes(),
      sizes_json(plan.sizes));
  return out;
}

std::string as_table(const Plan& plan, const TypePlan& chosen) {
  std::string out =
      fmt::format("model    {}, weights as {}{}\n", printable(plan.model), plan.weights_type,
                  plan.is_type_assumed ? " (assumed; PRESET:TYPE names another)" : "");
  out += fmt::format("fits: {}  ({} of {}, with K and V as {})\n\n", chosen.fits ? "yes" : "no",
                     format_bytes(chosen.memory.total_bytes()), format_bytes(plan.memory_bytes),
                     name_of(chosen.type));
  out += fmt::format("weights  {:>12}  packed\n", format_bytes(chosen.memory.weights_bytes));
  out += fmt::format("buffers  {:>12}  ", format_bytes(chosen.memory.buffers_bytes()));
  for (const MemoryPlan::Part& part : chosen.memory.buffers) {
    out += fmt::format("{}{} {}", &part == chosen.memory.buffers.data() ? "" : ", ", part.name,
                       format_bytes(part.n_bytes));
  }
  out += fmt::format("\nmemory   {:>12}\nserve    {}\n\n", format_bytes(plan.memory_bytes),
                     plan.choice_text);
  out += fmt::format("{} of {} tokens each\n",
                     plan.n_users == 1 ? "one user" : fmt::format("{} users", plan.n_users),
                     plan.n_ctx);
  out += fmt::format("{:<10}{:>14}{:>14}{:>14}{:>14}  {:<6}{:>16}  {}\n", "KV type", "per token",
                     "per user", "all users", "with weights", "fits", "users that fit", "quality");
  for (const TypePlan& p : plan.by_type) {
    out += fmt::format("{:<10}{:>14}{:>14}{:>14}{:>14}  {:<6}{:>16}  {}\n", name_of(p.type),
                       format_bytes(p.kv_bytes_per_token), format_bytes(p.kv_bytes_per_user),
                       format_bytes(p.memory.kv_bytes), format_bytes(p.memory.total_bytes()),
                       p.fits ? "yes" : "no", p.users_that_fit, quality_text(p.type));
  }
  const TypePlan& first = plan.by_type.front();
  if (first.kv_bytes_beyond_windows < first.kv_bytes_per_token) {
    out += "beyond the windows of some layers a token takes";
    for (const TypePlan& p : plan.by_type) {
      out += fmt::format("{} {} as {}", &p == &first ? "" : ",",
                         format_bytes(p.kv_bytes_beyond_windows), name_of(p.type));
    }
    out += "\n";
  }
  if (chosen.open_bytes > 0) {
    out += fmt::format(
        "of these {} are a user's open pages: the newest tokens in {}, whatever the context; at "
        "most\na quarter of the budget is for open pages\n",
        format_bytes(chosen.open_bytes), name_of(kOpenType));
  }
  if (plan.state_bytes > 0) {
    out += fmt::format(
        "of these {} are a user's recurrent state, in {} of {} layers, whatever the context; where "
        "others\ncontinue, a snapshot of it is kept, as large as the K and V of {} tokens as {};\n"
        "a quarter of the budget is for states\n",
        format_bytes(plan.state_bytes), plan.n_recurrent_layers, plan.n_layers,
        plan.state_bytes / chosen.kv_bytes_per_token, name_of(chosen.type));
  }
  out += fmt::format("\n{}", sizes_text(plan.sizes, plan.memory_bytes));
  return out;
}

// Returns the weight types to compare: for a preset or random model without a type, those in common
// use.
Result<std::vector<WeightVariant>> weight_variants(ModelOptions model, Backend& backend) {
  std::vector<WeightVariant> variants;
  const std::string spec = spec_of(model.model);
  const bool any_type = has_no_weight_type(spec);
  for (const char* type : {"bf16", "q8_0", "q4_k_m"}) {
    model.model = any_type ? fmt::format("{}:{}", spec, type) : spec;
    TRY_ASSIGN(const auto source, open_model(model));
    TRY_ASSIGN(Footprint footprint, Footprint::of(*source, backend));
    variants.push_back({any_type ? type : "as it is", std::move(footprint)});
    if (!any_type) break;
  }
  return variants;
}

// Returns the users and context that fit in each memory size, for other weight and KV types.
Result<FitTable> fit_table(const PlanOptions& options, const Plan& plan) {
  TRY_ASSIGN(const auto backend, make_backend(options.model));
  TRY_ASSIGN(const auto variants, weight_variants(options.model, *backend));
  return make_fit_table(plan.model, variants, plan.n_ctx, plan.adapter_bytes);
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
