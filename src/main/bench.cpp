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

// Returns a parser for a comma-separated list of modes.
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
  Flags flags = line.add(
      "bench", "Measure prefill and decode speed, also as a share of this machine's limits",
      [options] { return finish(bench(*options)); });
  add_model_flags(flags, options->model);
  flags.add(
      "Measurement",
      {
          {"--prefill", as_count(options->prefill),
           "prompt tokens; 0: skip the test (default: 512)"},
          {"--decode", as_count(options->decode),
           "generated tokens; 0: skip the test (default: 64)"},
          {"--depth", as_counts(options->depths),
           "tokens of context before the measured ones; several: 0,1k,8k (default: 0)"},
          {"--batch", as_counts(options->batches),
           "sequences in a batch; several: 1,4,16 (default: 1)"},
          Flag("--repeat", &options->repeat, "runs of each test").between(1u, 1000u).with_default(),
          {"--no-cache", &options->no_cache,
           "decode without the KV cache: every step recomputes all tokens"},
          {"--fill", &options->fill,
           "fill the pages of --depth with random numbers instead of computing them"},
          Flag("--adapter", &options->adapters,
               "LoRA adapters, assigned to the sequences of a batch in turn")
              .called("PATH[:SCALE],…"),
      });
  flags.add("Output",
            {
                {"--json", &options->json, "print an array of JSON objects"},
                Flag("--roofline", &options->roofline, "write the machine's roofline as SVG")
                    .called("FILE"),
            });
  options->replay.modes = {{.name = "auto", .options = {}}};
  flags.add(
      "Speculative decoding",
      {
          Flag("--replay", &options->replay.file,
               "measure the speedup of speculative decoding on recorded answers: a file of lines "
               "{\"prompt\", \"answer\"}")
              .called("FILE"),
          {"--speculate", as_modes(options->replay.modes),
           "modes that --replay compares with off; several: auto,4 (default: auto)"},
          Flag("--draft", &options->replay.draft, "draft model for --replay")
              .is_model()
              .called("MODEL"),
          Flag("--tokenizer", &options->replay.tokenizer,
               "model whose tokenizer is used for --replay (default: MODEL)")
              .is_model()
              .called("MODEL"),
      });
  flags.examples({
      "kvik bench model.gguf --depth 0,4k --batch 1,8",
      "kvik bench synthetic:llama-3-8b:q4_k --json",
  });
}

}  // namespace kvik
