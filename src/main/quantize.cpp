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

// Returns Kvik's name of a type that llama.cpp may call Q4_K_M: Kvik's K types are its _M mixtures.
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
                       : fmt::format("'{}' is no type that can be made; expected {}", name,
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
  Flags flags = line.add(
      "quantize",
      "write a model's weights in another type, or measure on a text which of them matter.\n"
      "  kvik quantize IN OUT.gguf --type q4_k\n"
      "  kvik quantize IN OUT.gguf --type q4_k --importance FILE\n"
      "  kvik quantize IN FILE --calibrate text.txt    measures once, for all types\n"
      "  kvik quantize IN OUT.gguf --type q4_k --calibrate text.txt    both at once\n"
      "OUT appears only when it is complete.",
      [options] { return run(*options); });
  add_model_flags(flags, options->model);
  flags.describe("--ctx", "tokens of a window of --calibrate (default: 512)");
  flags.add({
      Flag("OUT", &options->out, "the file to write").required(),
      {"--type", as_target(options->type),
       fmt::format("of most matrices: {}; the head and some others keep more bits",
                   mix_target_names())},
      Flag("--importance", &options->importance,
           "what each column of weights counts: a file of --calibrate, or llama.cpp's "
           "imatrix.gguf")
          .called("FILE"),
      Flag("--calibrate", &options->calibrate,
           "let the model read this text and gather the importance")
          .called("TEXT"),
      {"--windows", as_count(options->n_windows),
       "of --calibrate, only the first so many (default: all)"},
      {"--pure", &options->pure, "every matrix in the one type"},
      {"--force", &options->force, "replace OUT where it exists"},
      {"--json", &options->as_json, "the report as one object"},
  });
}

}  // namespace kvik
