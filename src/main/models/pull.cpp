#include <fmt/format.h>

#include <memory>
#include <string>

#include "base/process/interrupts.h"
#include "base/quantity.h"
#include "host/model_fit.h"
#include "hub/model_download.h"
#include "main/commands.h"
#include "main/exit_code.h"
#include "main/models/download_display.h"
#include "main/models/hub_options.h"

namespace kvik {
namespace {

struct PullFlags {
  std::string name;
  bool force = false;
  uint32_t n_connections = HubOptions{}.n_connections;
  Duration stall_timeout = HubOptions{}.stall_timeout;
};

Result<int> pull(const PullFlags& flags) {
  TRY_ASSIGN(HubOptions options, hub_options());
  options.n_connections = flags.n_connections;
  options.stall_timeout = flags.stall_timeout;
  ModelStore store(std::move(options));
  Interrupts::catch_first();
  DownloadDisplay display;
  const auto stored = download_model(store, flags.name, flags.force ? FitCheck() : fit_of_model,
                                     [&](const PullProgress& progress) {
                                       display.show(progress);
                                       return !Interrupts::is_raised();
                                     });
  display.close();
  if (!stored && Interrupts::is_raised()) {
    streams::print_error(fmt::format("kvik: stopped; kvik pull {} continues", flags.name));
    return kExitInterrupted;
  }
  if (!stored) return std::unexpected(stored.error());
  streams::print("{}: {} in {}\n", stored->name, format_bytes(stored->n_bytes), stored->path);
  return kExitOk;
}

}  // namespace

void add_pull(CommandLine& line) {
  auto options = std::make_shared<PullFlags>();
  Flags flags = line.add("pull", "Download a model", [options] { return finish(pull(*options)); });
  flags.add({
      Flag(
          "NAME", &options->name,
          "a GGUF file or a folder of Hugging Face (ORG/REPO[:QUANT], hf.co/ORG/REPO/FILE.gguf), a "
          "model of Ollama's registry (ollama://MODEL[:TAG]) or the URL of a .gguf file. Without "
          "QUANT: Q4_K_M if there is one")
          .required(),
      {"--force", &options->force,
       "download even if the model does not fit this machine's memory, or Kvik cannot run it"},
      Flag("--connections", &options->n_connections, "number of parallel connections for a file")
          .between(1u, 16u)
          .with_default(),
      {"--stall-timeout", as_duration(options->stall_timeout),
       "time without data after which a connection is opened again (default: 30s)"},
  });
  flags.examples({
      "kvik pull Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q4_K_M",
      "kvik pull HuggingFaceTB/SmolLM2-135M-Instruct          # a folder of safetensors",
      "kvik pull ollama://qwen2.5:0.5b",
  });
}

}  // namespace kvik
