#include "study/bench/bench.h"

#include <memory>
#include <utility>

#include "main/commands.h"
#include "main/model_flags.h"

namespace kvik {

Command add_bench(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App& command =
      *app.add_subcommand("bench", "prefill and decode speed, as a share of this machine's limits");
  add_model_flags(command, options->model);
  add_count(command, "--prefill", options->prefill, "prompt tokens; 0: no test (default: 512)");
  add_count(command, "--decode", options->decode, "generated tokens; 0: no test (default: 64)");
  add_counts(command, "--depth", options->depths,
             "tokens of context before the test; several: 0,1k,8k (default: 0)");
  add_counts(command, "--batch", options->batches,
             "sequences at once; several: 1,4,16 (default: 1)");
  command.add_option("--repeat", options->repeat, "runs of each test")
      ->check(CLI::Range(1u, 1000u))
      ->capture_default_str();
  command.add_flag("--no-cache", options->no_cache,
                   "decode without the cache: every step computes all tokens again");
  command.add_flag("--fill", options->fill,
                   "fill the context's pages with noise, do not compute it");
  command.add_flag("--json", options->json, "an array of results");
  command.add_option("--roofline", options->roofline, "draw the machine's roofline as SVG")
      ->type_name("FILE");
  return [options] { return finish(bench(*options)); };
}

}  // namespace kvik
