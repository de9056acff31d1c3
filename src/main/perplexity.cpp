#include "study/perplexity/perplexity.h"

#include <memory>
#include <utility>

#include "main/commands.h"
#include "main/model_flags.h"

namespace kvik {

Command add_perplexity(CLI::App& app) {
  auto options = std::make_shared<PerplexityOptions>();
  CLI::App& command = *app.add_subcommand(
      "perplexity",
      "how well a model foresees a text, and how far it is from another model.\n"
      "The text is cut into windows of --ctx tokens, each read from its beginning; the second half "
      "of a window is scored, as llama.cpp's llama-perplexity does.");
  add_model_flags(command, options->model);
  command.get_option("--ctx")->description("tokens of a window (default: 512)");
  command.add_option("FILE", options->file, "the text")->required();
  command
      .add_option("--against", options->against,
                  "also the KL divergence from this model's distributions: the unquantised one's")
      ->type_name("MODEL");
  add_count(command, "--windows", options->n_windows, "only the first so many (default: all)");
  command.add_flag("--parse-special", options->parse_special,
                   "special tokens in the text are meant");
  command.add_flag("--json", options->as_json, "one object");
  return [options] { return finish(perplexity(*options)); };
}

}  // namespace kvik
