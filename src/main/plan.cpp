#include "study/plan/plan.h"

#include <fmt/format.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "main/commands.h"
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
  fmt::print("{}", report.text);
  if (flags.svg.empty()) return kExitOk;
  std::ofstream file(flags.svg);
  file << report.svg;
  if (!file.flush()) return fail(ErrorCode::kIo, fmt::format("cannot write '{}'", flags.svg));
  return kExitOk;
}

}  // namespace

Command add_plan(CLI::App& app) {
  auto options = std::make_shared<PlanFlags>();
  CLI::App& command =
      *app.add_subcommand("plan", "what fits: weights, KV bytes per token and user, by KV type");
  add_model_flags(command, options->plan.model);
  command.get_option("MODEL")->description(
      "a .gguf file, a Hugging Face folder, 'demo', synthetic:PRESET[:TYPE] or a preset's name; no "
      "weight is read");
  add_count(command, "--users", options->plan.n_users, "conversations at a time (default: 1)");
  add_bytes(command, "--memory", options->plan.memory_bytes,
            "plan for so much (default: this machine's)");
  command.add_flag("--json", options->plan.as_json,
                   "one object, of the KV type that --kv-type names");
  command.add_option("--svg", options->svg, "draw what fits which memory into this file")
      ->type_name("FILE");
  return [options] { return finish(show_plan(*options)); };
}

}  // namespace kvik
