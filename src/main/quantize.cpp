#include "study/quantize/quantize.h"

#include <memory>
#include <utility>

#include "format/weight_mix.h"
#include "main/commands.h"
#include "main/interrupts.h"
#include "main/model_flags.h"

namespace kvik {

namespace {

std::string trouble_of_type(const std::string& name) {
  if (mix_target_from_name(name)) return "";
  return fmt::format("'{}' is no type that can be made; expected {}", name, mix_target_names());
}

}  // namespace

Command add_quantize(CLI::App& app) {
  auto options = std::make_shared<QuantizeOptions>();
  CLI::App& command = *app.add_subcommand(
      "quantize",
      "write a model's weights in another type, or gather what they meet in a text.\n"
      "  kvik quantize IN OUT.gguf --type q4_k\n"
      "  kvik quantize IN OUT.gguf --type q4_k --importance FILE\n"
      "  kvik quantize IN FILE --calibrate text.txt    gathers FILE once, for all types\n"
      "  kvik quantize IN OUT.gguf --type q4_k --calibrate text.txt    both in one go\n"
      "OUT is there whole or not at all.");
  add_model_flags(command, options->model);
  command.get_option("--ctx")->description("tokens of a window of --calibrate (default: 512)");
  command.add_option("OUT", options->out, "the file to write")->required();
  command
      .add_option("--type", options->type,
                  fmt::format("of most matrices: {}; the head and some others keep more bits",
                              mix_target_names()))
      ->check(CLI::Validator(trouble_of_type, ""))
      ->type_name("TYPE");
  command
      .add_option("--importance", options->importance,
                  "what each column of weights counts: a file of --calibrate, or llama.cpp's "
                  "imatrix.gguf")
      ->type_name("FILE");
  command
      .add_option("--calibrate", options->calibrate,
                  "let the model read this text and gather the importance")
      ->type_name("TEXT");
  add_count(command, "--windows", options->n_windows,
            "of --calibrate, only the first so many (default: all)");
  command.add_flag("--pure", options->pure, "every matrix in the one type");
  command.add_flag("--force", options->force, "replace OUT where it exists");
  command.add_flag("--json", options->as_json, "the report as one object");
  return [options]() -> int {
    const auto text = quantize(*options, {.on_begin = Interrupts::catch_them,
                                          .goes_on = [] { return !Interrupts::is_raised(); }});
    return !text && Interrupts::is_raised() ? kExitInterrupted : finish(text);
  };
}

}  // namespace kvik
