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
      {.name = "--prefill",
       .to = as_count(options->prefill),
       .help = "prompt tokens; 0: no test (default: 512)"},
      {.name = "--decode",
       .to = as_count(options->decode),
       .help = "generated tokens; 0: no test (default: 64)"},
      {.name = "--depth",
       .to = as_counts(options->depths),
       .help = "tokens of context before the test; several: 0,1k,8k (default: 0)"},
      {.name = "--batch",
       .to = as_counts(options->batches),
       .help = "sequences at once; several: 1,4,16 (default: 1)"},
      {.name = "--repeat",
       .to = &options->repeat,
       .help = "runs of each test",
       .bounds = Between{1u, 1000u},
       .shows_default = true},
      {.name = "--no-cache",
       .to = &options->no_cache,
       .help = "decode without the cache: every step computes all tokens again"},
      {.name = "--fill",
       .to = &options->fill,
       .help = "fill the context's pages with noise, do not compute it"},
      {.name = "--json", .to = &options->json, .help = "an array of results"},
      {.name = "--roofline",
       .to = &options->roofline,
       .help = "draw the machine's roofline as SVG",
       .type = "FILE"},
  });
}

}  // namespace kvik
