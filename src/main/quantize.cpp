#include "study/quantize/quantize.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <utility>

#include "base/process/interrupts.h"
#include "format/weight_mix.h"
#include "main/commands.h"
#include "main/exit_code.h"
#include "main/model_flags.h"

namespace kvik {

namespace {

// Returns Kvik's name of a type. llama.cpp's Q4_K_M is Kvik's q4_k: Kvik's K types are the _M
// mixtures.
std::string type_name(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::string k_type = name.substr(0, name.size() - std::min<size_t>(name.size(), 2));
  return k_type.ends_with("_k") && name.ends_with("_m") ? k_type : name;
}

Words as_target(std::string& type) {
  return {.type = "TYPE", .read = [&type](const std::string& name) {
            type = type_name(name);
            return mix_target_from_name(type)
                       ? ""
                       : fmt::format("'{}' is not a type that can be written; expected {}", name,
                                     mix_target_names());
          }};
}

int run(const QuantizeOptions& options) {
  const auto text = quantize(options, {.on_begin = Interrupts::catch_them,
                                       .goes_on = [] { return !Interrupts::is_raised(); }});
  return !text && Interrupts::is_raised() ? kExitInterrupted : finish(text);
}

}  // namespace

void add_quantize(CommandLine& line) {
  auto options = std::make_shared<QuantizeOptions>();
  Flags flags = line.add("quantize",
                         "Write a model's weights in another type, or compute an importance matrix",
                         [options] { return run(*options); });
  add_model_flags(flags, options->model);
  flags.describe("--ctx", "tokens of a window of --calibrate (default: 512)");
  flags.add(
      "Quantization",
      {
          Flag("OUT", &options->out, "the file to write; it appears only when it is complete")
              .required(),
          {"--type", as_target(options->type),
           fmt::format("type of most matrices: {}; the output head and some others keep more bits",
                       mix_target_names())},
          {"--pure", &options->pure, "use that type for every matrix"},
          Flag("--importance", &options->importance,
               "importance matrix: a file written with --calibrate, or llama.cpp's imatrix.gguf")
              .called("FILE"),
          Flag("--calibrate", &options->calibrate,
               "compute the importance matrix from this text; without --type, write it to OUT")
              .called("TEXT"),
          {"--windows", as_count(options->n_windows),
           "number of windows of the text to read (default: all)"},
          {"--force", &options->force, "overwrite OUT"},
          {"--json", &options->as_json, "print the report as a JSON object"},
      });
  flags.examples({
      "kvik quantize hf-folder/ model-q4_k.gguf --type q4_k",
      "kvik quantize hf-folder/ model-q4_k.gguf --type q4_k --calibrate text.txt",
  });
}

}  // namespace kvik
