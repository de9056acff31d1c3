#include <fmt/format.h>

#include <memory>
#include <string>

#include "engine/engine_thread.h"
#include "main/commands.h"
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
void add_prompts(CLI::App& command, RunOptions& options) {
  auto* words =
      command.add_option("TEXT", options.text, "one message of a chat (default: those you type)");
  auto* prompt = command.add_option_function<std::string>(
      "-p,--prompt", [&options](const std::string& text) { options.prompt = text; },
      "continue this text as it stands (a pipe does the same)");
  auto* file =
      command
          .add_option("-f,--file", options.file,
                      "continue the text in this file; with TEXT: what the message is about (so "
                      "does a pipe)")
          ->type_name("FILE");
  auto* tokens = command.add_option("--tokens", options.tokens,
                                    "continue these ids, fed exactly as they stand");
  auto* system = command.add_option("--system", options.system, "the system prompt of a chat");
  prompt->excludes(words, file, tokens, system);
  tokens->excludes(words, file, system);
}

void add_sampling(CLI::App& command, SamplingParams& sampling) {
  sampling.temperature = 0.8f;
  sampling.top_p = 0.95f;
  command.add_option("--temperature", sampling.temperature, "0 is greedy")->capture_default_str();
  command.add_option("--top-k", sampling.top_k, "draw among the K likeliest (0: off)")
      ->capture_default_str();
  command.add_option("--top-p", sampling.top_p, "draw among the likeliest that make up P")
      ->capture_default_str();
  command.add_option("--min-p", sampling.min_p, "leave out what is less than P × the likeliest")
      ->capture_default_str();
  command.add_option("--repetition-penalty", sampling.repetition_penalty, "1 is off")
      ->capture_default_str();
  command.add_option("--presence-penalty", sampling.presence_penalty, "0 is off");
  command.add_option("--frequency-penalty", sampling.frequency_penalty, "0 is off");
}

}  // namespace

Command add_run(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  CLI::App& command =
      *app.add_subcommand("run", "chat in the terminal, answer a message, or continue a text");
  command.footer(kRunFooter);
  add_model_flags(command, options->model);
  add_prompts(command, *options);
  add_count(command, "--max-tokens", options->max_tokens,
            "tokens to generate at most (default: 256 where a text is continued, else what the "
            "context holds)");
  command.add_option("--stop", options->stop, "end the answer before this text");
  options->disk.add_to(command);
  add_sampling(command, options->sampling);
  command.add_option("--seed", options->seed,
                     "the same seed gives the same text (default: random)");
  command.add_flag("--ids", options->ids, "print token ids instead of text");
  command.add_flag("--stats", options->stats, "print TTFT, ITL and cached tokens on stderr");
  command.add_flag("--ignore-eos", options->ignore_eos, "an end token does not stop");
  command.add_flag("--no-cache", options->no_cache, "compute all K and V again for every token");
  return [options] { return finish(run(*options)); };
}

}  // namespace kvik
