#include "study/plan/plan.h"

#include <fmt/format.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "main/commands.h"
#include "main/exit_code.h"
#include "main/model_flags.h"
#include "main/models/model_argument.h"

namespace kvik {
namespace {

struct PlanFlags {
  PlanOptions plan;
  std::string svg;  // path of the SVG output; empty: none
};

Result<int> show_plan(PlanFlags flags) {
  flags.plan.wants_svg = !flags.svg.empty();
  PlanReport report;
  TRY(with_headers(flags.plan.model.model, [&](const std::string& path) -> Result<void> {
    flags.plan.model.model = path;
    TRY_ASSIGN(report, plan_model(flags.plan));
    return {};
  }));
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
  Flags flags =
      line.add("plan", "Compute the memory of weights and KV cache before anything is loaded",
               [options] { return finish(show_plan(*options)); });
  add_model_flags(flags, options->plan.model);
  flags.keep_unstored(&options->plan.model.model);
  flags.describe("MODEL",
                 "a .gguf file, a Hugging Face folder, a stored model (kvik list), 'demo', "
                 "synthetic:PRESET[:TYPE] or a preset's name; of hf.co/ORG/REPO[:QUANT], "
                 "ollama://MODEL[:TAG] and https://HOST/FILE.gguf only the headers are downloaded. "
                 "No weight is read");
  flags.add(
      "Plan",
      {
          {"--users", as_count(options->plan.n_users),
           "number of concurrent conversations (default: 1)"},
          {"--memory", not_zero(as_bytes(options->plan.memory_bytes)),
           "memory of the machine to plan for (default: this machine's)"},
          {"--adapter-memory", as_bytes(options->plan.adapter_bytes),
           "memory of adapters, as with `kvik serve --adapter-memory` (default: none)"},
          {"--kv-events", &options->plan.has_kv_events,
           "include the memory of `kvik serve --kv-events`"},
          {"--json", &options->plan.as_json, "print a JSON object for the KV type of --kv-type"},
          Flag("--svg", &options->svg, "write a chart of context and users by memory to this file")
              .called("FILE"),
      });
  flags.examples({
      "kvik plan model.gguf --ctx 16k --users 8",
      "kvik plan qwen3-8b:q4_k --memory 16GiB",
      "kvik plan -hf ORG/REPO:Q4_K_M                       # before it is downloaded",
  });
}

}  // namespace kvik
