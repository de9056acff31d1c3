#include "study/bench/bench.h"

#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "main/commands.h"
#include "main/exit_code.h"
#include "main/model_flags.h"
#include "main/speculation_flags.h"

namespace kvik {
namespace {

// What stands between commas.
Words as_modes(std::vector<ReplayMode>& modes) {
  return {.type = "auto|off|N,…", .read = [&modes](const std::string& text) {
            modes.clear();
            std::stringstream words(text);
            std::string problem;
            for (std::string word; problem.empty() && std::getline(words, word, ',');) {
              modes.push_back({.name = word, .options = {}});
              problem = read_speculation(word, modes.back().options);
            }
            return problem;
          }};
}

}  // namespace

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
      Flag("--adapter", &options->adapters,
           "LoRA adapters that the sequences of a batch take turns with")
          .called("PATH[:SCALE],…"),
      Flag("--roofline", &options->roofline, "draw the machine's roofline as SVG").called("FILE"),
  });
  options->replay.modes = {{.name = "auto", .options = {}}};
  flags.add({
      Flag("--replay", &options->replay.file,
           "answer the prompts in this file with the answers in it, lines of {\"prompt\", "
           "\"answer\"}: how much speculation brings, beside none")
          .called("FILE"),
      {"--speculate", as_modes(options->replay.modes),
       "of --replay; several: auto,4,off (default: auto)"},
      Flag("--draft", &options->replay.draft, "a draft model, for --replay").called("MODEL"),
      Flag("--tokenizer", &options->replay.tokenizer,
           "a model whose vocabulary cuts the texts of --replay (default: MODEL's own)")
          .called("MODEL"),
  });
}

}  // namespace kvik
