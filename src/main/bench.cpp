#include "study/bench/bench.h"

#include <memory>
#include <utility>

#include "main/commands.h"
#include "main/exit_code.h"
#include "main/model_flags.h"

namespace kvik {

void add_bench(CommandLine& line) {
  auto options = std::make_shared<BenchOptions>();
  Flags flags = line.add("bench", "prefill and decode speed, as a share of this machine's limits",
                         [options] { return finish(bench(*options)); });
  add_model_flags(flags, options->model);
  flags.add({
      {"--prefill", as_count(options->prefill), "prompt tokens; 0: no test (default: 512)"},
      {"--decode", as_count(options->decode), "generated tokens; 0: no test (default: 64)"},
      {"--depth", as_counts(options->depths),
       "tokens of context before the test; several: 0,1k,8k (default: 0)"},
      {"--batch", as_counts(options->batches), "sequences at once; several: 1,4,16 (default: 1)"},
      Flag("--repeat", &options->repeat, "runs of each test").between(1u, 1000u).with_default(),
      {"--no-cache", &options->no_cache,
       "decode without the cache: every step computes all tokens again"},
      {"--fill", &options->fill, "fill the context's pages with noise, do not compute it"},
      {"--json", &options->json, "an array of results"},
      Flag("--roofline", &options->roofline, "draw the machine's roofline as SVG").called("FILE"),
  });
}

}  // namespace kvik
