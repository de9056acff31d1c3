#include "study/perplexity/perplexity.h"

#include <memory>
#include <utility>

#include "main/commands.h"
#include "main/exit_code.h"
#include "main/model_flags.h"

namespace kvik {

void add_perplexity(CommandLine& line) {
  auto options = std::make_shared<PerplexityOptions>();
  Flags flags =
      line.add("perplexity", "Compute perplexity, or the KL divergence from another model",
               [options] { return finish(perplexity(*options)); });
  add_model_flags(flags, options->model);
  add_adapter_flag(flags, options->model);
  flags.describe("--ctx",
                 "tokens of a window (default: 512). The second half of each window is scored, as "
                 "in llama.cpp's llama-perplexity");
  flags.add(
      "Measurement",
      {
          Flag("FILE", &options->file, "the text").required(),
          Flag("--against", &options->against,
               "reference model, such as the unquantized one: also compute the KL divergence from "
               "its distributions")
              .is_model()
              .called("MODEL"),
          {"--against-kv-type", as_kv_type(options->against_kv_type),
           "KV type of the reference (default: --kv-type); without --against, MODEL itself is the "
           "reference, which measures what a KV type loses"},
          {"--windows", as_count(options->n_windows), "number of windows to score (default: all)"},
          {"--parse-special", &options->parse_special,
           "read the text of special tokens as special tokens"},
          {"--json", &options->as_json, "print a JSON object"},
      });
  flags.examples({
      "kvik perplexity model-q4_k.gguf text.txt --against model-f16.gguf",
      "kvik perplexity model.gguf text.txt --kv-type int4 --against-kv-type f32",
  });
}

}  // namespace kvik
