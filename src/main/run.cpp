#include <fmt/format.h>

#include <memory>
#include <string>

#include "engine/engine_thread.h"
#include "main/commands.h"
#include "main/exit_code.h"
#include "main/interrupts.h"
#include "main/run_options.h"
#include "service/service.h"

namespace kvik {
namespace {

constexpr char kRunFooter[] = R"(In a terminal, /help lists what a chat understands:
  kvik run MODEL                                a chat
  kvik run MODEL "Why is the sky blue?"         one message, one answer
  kvik run MODEL "What is this?" < notes.txt    a message about a text
  kvik run MODEL -p "Once upon a time"          a text goes on)";

Result<int> run(const RunOptions& options) {
  TRY_ASSIGN(const RunTask task, read_task(options));
  TRY_ASSIGN(const auto disk, options.disk.open());
  TRY_ASSIGN(LoadedModel loaded, load_model(options.model));
  const SteadyClock clock;
  const ModelConfig config = loaded.model->config();
  const uint64_t n_ctx = options.model.n_ctx ? options.model.n_ctx : config.n_ctx_train;
  EngineOptions engine_options{
      .kv_budget_bytes = kv_budget_beside(disk.get(), loaded, options.model.kv_type,
                                          kv_bytes_for(loaded, options.model.kv_type, n_ctx, 1)),
      .kv_type = options.model.kv_type,
      .n_ctx_max = static_cast<uint32_t>(n_ctx),
      .tier = disk.get()};
  TRY_ASSIGN(auto engine,
             Engine::create(std::move(loaded.model), *loaded.backend, engine_options, clock));
  EngineThread engine_thread(std::move(engine));
  Service service(*loaded.tokenizer, engine_thread,
                  {.id = model_id(options.model.model),
                   .architecture = config.architecture,
                   .n_ctx_max = engine_thread.limits().n_ctx_max,
                   .n_ctx_train = config.n_ctx_train,
                   .n_vocab = config.n_vocab});
  Interrupts::catch_them();
  return task.kind == RunTask::Kind::kChat ? run_chat(service, options)
                                           : run_once(service, options, task);
}

// One of them, or none for a chat.
void add_prompts(Flags& flags, RunOptions& options) {
  flags.add({
      {.name = "TEXT",
       .to = &options.text,
       .help = "one message of a chat (default: those you type)"},
      {.name = "-p,--prompt",
       .to = as_text(options.prompt),
       .help = "continue this text as it stands (a pipe does the same)"},
      {.name = "-f,--file",
       .to = &options.file,
       .help = "continue the text in this file; with TEXT: what the message is about (so does a "
               "pipe)",
       .type = "FILE"},
      {.name = "--tokens",
       .to = &options.tokens,
       .help = "continue these ids, fed exactly as they stand"},
      {.name = "--system", .to = &options.system, .help = "the system prompt of a chat"},
  });
  flags.exclude("--prompt", {"TEXT", "--file", "--tokens", "--system"});
  flags.exclude("--tokens", {"TEXT", "--file", "--system"});
}

void add_sampling(Flags& flags, SamplingParams& sampling) {
  sampling.temperature = 0.8f;
  sampling.top_p = 0.95f;
  flags.add({
      {.name = "--temperature",
       .to = &sampling.temperature,
       .help = "0 is greedy",
       .shows_default = true},
      {.name = "--top-k",
       .to = &sampling.top_k,
       .help = "draw among the K likeliest (0: off)",
       .shows_default = true},
      {.name = "--top-p",
       .to = &sampling.top_p,
       .help = "draw among the likeliest that make up P",
       .shows_default = true},
      {.name = "--min-p",
       .to = &sampling.min_p,
       .help = "leave out what is less than P × the likeliest",
       .shows_default = true},
      {.name = "--repetition-penalty",
       .to = &sampling.repetition_penalty,
       .help = "1 is off",
       .shows_default = true},
      {.name = "--presence-penalty", .to = &sampling.presence_penalty, .help = "0 is off"},
      {.name = "--frequency-penalty", .to = &sampling.frequency_penalty, .help = "0 is off"},
  });
}

}  // namespace

void add_run(CommandLine& line) {
  auto options = std::make_shared<RunOptions>();
  Flags flags = line.add("run", "chat in the terminal, answer a message, or continue a text",
                         [options] { return finish(run(*options)); });
  flags.end_with(kRunFooter);
  add_model_flags(flags, options->model);
  add_prompts(flags, *options);
  flags.add({
      {.name = "--max-tokens",
       .to = as_count(options->max_tokens),
       .help = "tokens to generate at most (default: 256 where a text is continued, else what the "
               "context holds)"},
      {.name = "--stop", .to = &options->stop, .help = "end the answer before this text"},
  });
  options->disk.add_to(flags);
  add_sampling(flags, options->sampling);
  flags.add({
      {.name = "--seed",
       .to = &options->seed,
       .help = "the same seed gives the same text (default: random)"},
      {.name = "--ids", .to = &options->ids, .help = "print token ids instead of text"},
      {.name = "--stats",
       .to = &options->stats,
       .help = "print TTFT, ITL and cached tokens on stderr"},
      {.name = "--ignore-eos", .to = &options->ignore_eos, .help = "an end token does not stop"},
      {.name = "--no-cache",
       .to = &options->no_cache,
       .help = "compute all K and V again for every token"},
  });
}

}  // namespace kvik
