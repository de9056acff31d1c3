#include "study/plan/plan.h"

#include <fmt/format.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "main/commands.h"
#include "main/exit_code.h"
#include "main/model_flags.h"

namespace kvik {
namespace {

struct PlanFlags {
  PlanOptions plan;
  std::string svg;  // a file to draw into; empty: none
};

Result<int> show_plan(PlanFlags flags) {
  flags.plan.wants_svg = !flags.svg.empty();
  TRY_ASSIGN(const PlanReport report, plan_model(flags.plan));
  streams::print_text(report.text);
  if (flags.svg.empty()) return kExitOk;
  std::ofstream file(flags.svg);
  file << report.svg;
  if (!file.flush()) return fail(ErrorCode::kIo, fmt::format("cannot write '{}'", flags.svg));
  return kExitOk;
}

}  // namespace

void add_plan(CommandLine& line) {
  auto options = std::make_shared<PlanFlags>();
  Flags flags = line.add("plan", "what fits: weights, KV bytes per token and user, by KV type",
                         [options] { return finish(show_plan(*options)); });
  add_model_flags(flags, options->plan.model);
  flags.describe("MODEL",
                 "a .gguf file, a Hugging Face folder, 'demo', synthetic:PRESET[:TYPE] or a "
                 "preset's name; no weight is read");
  flags.add({
      {"--users", as_count(options->plan.n_users), "conversations at a time (default: 1)"},
      {"--memory", not_zero(as_bytes(options->plan.memory_bytes)),
       "plan for so much (default: this machine's)"},
      {"--adapter-memory", as_bytes(options->plan.adapter_bytes),
       "count so much for adapters, as `kvik serve` does (default: none)"},
      {"--kv-events", &options->plan.has_kv_events,
       "count what publishing KV events takes, as `kvik serve --kv-events` does"},
      {"--json", &options->plan.as_json, "one object, of the KV type that --kv-type names"},
      Flag("--svg", &options->svg, "draw what fits which memory into this file").called("FILE"),
  });
}

}  // namespace kvik
