#include "study/perplexity/perplexity.h"

#include <memory>
#include <utility>

#include "main/commands.h"
#include "main/exit_code.h"
#include "main/model_flags.h"

namespace kvik {

void add_perplexity(CommandLine& line) {
  auto options = std::make_shared<PerplexityOptions>();
  Flags flags = line.add(
      "perplexity",
      "how well a model foresees a text, and how far it is from another model.\n"
      "The text is cut into windows of --ctx tokens, each read from its beginning; the second half "
      "of a window is scored, as llama.cpp's llama-perplexity does.",
      [options] { return finish(perplexity(*options)); });
  add_model_flags(flags, options->model);
  add_adapter_flag(flags, options->model);
  flags.describe("--ctx", "tokens of a window (default: 512)");
  flags.add({
      Flag("FILE", &options->file, "the text").required(),
      Flag("--against", &options->against,
           "also the KL divergence from this model's distributions: the unquantised one's")
          .called("MODEL"),
      {"--against-kv-type", as_kv_type(options->against_kv_type),
       "what that model's K and V are stored as (default: --kv-type); alone, the same model is "
       "meant: what a type of pages costs"},
      {"--windows", as_count(options->n_windows), "only the first so many (default: all)"},
      {"--parse-special", &options->parse_special, "special tokens in the text are meant"},
      {"--json", &options->as_json, "one object"},
  });
}

}  // namespace kvik
