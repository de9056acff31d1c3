#include <memory>
#include <string>

#include "base/process/interrupts.h"
#include "format/weight_mix.h"
#include "main/commands.h"
#include "main/exit_code.h"
#include "main/model_flags.h"
#include "study/adapter/adapter_report.h"
#include "study/quantize/quantize.h"

namespace kvik {
namespace {

struct ShowOptions {
  std::string model, adapter;
};

Words as_merged_type(std::string& type) {
  return {.type = "TYPE", .read = [&type](const std::string& name) {
            type = name;
            return name == "f32" || mix_target_from_name(name)
                       ? ""
                       : fmt::format("'{}' is not a type that can be written; expected f32, {}",
                                     name, mix_target_names());
          }};
}

int merge(const QuantizeOptions& options) {
  const auto text = quantize(options, {.on_begin = Interrupts::catch_them,
                                       .goes_on = [] { return !Interrupts::is_raised(); }});
  return !text && Interrupts::is_raised() ? kExitInterrupted : finish(text);
}

Flag adapter_word(std::string& adapter) {
  return Flag("ADAPTER", &adapter,
              "LoRA adapter: a PEFT folder or a GGUF file, and its scale (default: 1)")
      .called("PATH[:SCALE]")
      .required();
}

void add_merge(CommandLine& line, const Flags& parent) {
  auto options = std::make_shared<QuantizeOptions>();
  options->type = "f16";
  Flags flags =
      line.add(parent, "merge", "Merge an adapter into a model's weights and write a GGUF file",
               [options] { return merge(*options); });
  flags.add({
      Flag("MODEL", &options->model.model,
           "a .gguf file, a Hugging Face folder, a stored model (kvik list), 'demo' or "
           "synthetic:PRESET[:TYPE]")
          .is_model()
          .required(),
      adapter_word(options->model.adapter),
      Flag("OUT", &options->out, "the file to write").required(),
      {"--type", as_merged_type(options->type),
       fmt::format("type of most matrices: f32, {} (default: f16)", mix_target_names())},
      {"--pure", &options->pure, "use that type for every matrix"},
      {"--force", &options->force, "overwrite OUT"},
      {"--json", &options->as_json, "print the report as a JSON object"},
  });
  flags.examples({
      "kvik adapter merge model.gguf poet/ merged.gguf --type q4_k",
      "kvik adapter merge hf-folder/ poet.gguf:0.5 merged.gguf",
  });
}

void add_show_adapter(CommandLine& line, const Flags& parent) {
  auto options = std::make_shared<ShowOptions>();
  Flags flags =
      line.add(parent, "show", "Print the matrices, ranks, scales and memory of an adapter",
               [options] { return finish(adapter_report(options->model, options->adapter)); });
  flags.add({
      Flag("MODEL", &options->model,
           "a .gguf file, a Hugging Face folder, a stored model (kvik list), 'demo' or "
           "synthetic:PRESET[:TYPE]")
          .is_model()
          .required(),
      adapter_word(options->adapter),
  });
  flags.examples({"kvik adapter show model.gguf poet/", "kvik adapter show demo poet.gguf:0.5"});
}

}  // namespace

void add_adapter(CommandLine& line) {
  Flags flags = line.add("adapter", "Inspect a LoRA adapter, or merge it into its model", nullptr);
  flags.examples({"kvik adapter show model.gguf poet/",
                  "kvik adapter merge model.gguf poet/ merged.gguf --type q4_k"});
  add_merge(line, flags);
  add_show_adapter(line, flags);
}

}  // namespace kvik
