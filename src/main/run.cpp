#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "base/process/interrupts.h"
#include "library/library_model.h"
#include "main/commands.h"
#include "main/exit_code.h"
#include "main/load_for_one.h"
#include "main/models/model_argument.h"
#include "main/run_options.h"
#include "main/running/run_remote.h"
#include "service/sampling/sampling_fields.h"

namespace kvik {
namespace {

Result<int> perform(Generator& generator, const RunOptions& options, const RunTask& task) {
  Interrupts::catch_them();
  return task.kind == RunTask::Kind::kChat ? run_chat(generator, options)
                                           : run_once(generator, options, task);
}

Result<int> run_here(RunOptions options, const RunTask& task) {
  TRY_ASSIGN(const auto tiers, options.tiers.open());
  TRY_ASSIGN(auto ready, load_for_one(options.model, options.speculation, tiers.places()));
  TRY_ASSIGN(const auto model, LibraryModel::create(std::move(ready.loaded), ready.engine));
  LocalGenerator generator(model->service());
  auto code = perform(generator, options, task);
  if (tiers.places().empty()) return code;
  streams::flush();
  Interrupts::end_within(kTierTime, code ? *code : exit_code(code.error()));  // a tier may hang
  return code;
}

Result<int> run(RunOptions options) {
  TRY_ASSIGN(const auto running, find_running(options));
  ModelOptions& model = options.model;
  if (!running) TRY(resolve_model_argument(model.model, &model.name, IfNotStored::kDownload));
  const auto read = read_task(options);
  if (!read) {
    // The error of a missing model takes precedence.
    if (!running) TRY(open_model(options.model.model));
    return std::unexpected(read.error());
  }
  TRY_ASSIGN(options.given.request.form, read_structured_output(options));
  if (running) return perform(*running, options, *read);
  return run_here(std::move(options), *read);
}

// Returns a parser for a count, or llama.cpp's -1 for no limit.
Words as_limit(std::optional<uint64_t>& value) {
  Words words = as_count(value);
  words.read = [&value, read = std::move(words.read)](const std::string& text) {
    if (text != "-1") return read(text);
    value = RunOptions::kNoLimit;
    return std::string();
  };
  return words;
}

// Returns a parser for a count that may be -1.
Words as_field(const SamplingField& field, SamplingParams& sampling) {
  return {.type = "N", .read = [&](const std::string& text) {
            return read_field(field, text, sampling)
                       ? std::string()
                       : fmt::format("'{}' is not {}", text, field.range);
          }};
}

// Adds the prompt flags. TEXT and --file may be combined; without a prompt, `kvik run` starts a
// chat.
void add_prompts(Flags& flags, RunOptions& options) {
  flags.add("Prompt",
            {
                {"TEXT", &options.text, "a single chat message (default: an interactive chat)"},
                {"-p,--prompt", as_text(options.prompt),
                 "continue this text without a chat template, as text from a pipe is"},
                Flag("-f,--file", &options.file,
                     "continue the text of this file; with TEXT, the file (or a pipe) precedes the "
                     "message")
                    .called("FILE"),
                {"--tokens", &options.tokens, "continue these token ids, separated by commas"},
                {"--system", &options.system, "system prompt of the chat"},
            });
  flags.exclude("--prompt", {"TEXT", "--file", "--tokens", "--system"});
  flags.exclude("--tokens", {"TEXT", "--file", "--system"});
}

void add_sampling(Flags& flags, SamplingParams& sampling) {
  sampling.temperature = 0.8f;
  sampling.top_p = 0.95f;
  for (const SamplingField& field : sampling_fields()) {
    std::string name = fmt::format("--{}", field.name);
    std::ranges::replace(name, '_', '-');
    if (field.name == "temperature") name += ",--temp";
    Flag::Target target = std::visit(
        [&](const auto& number) -> Flag::Target { return &number.in(sampling); }, field.number);
    if (field.minus_one == UINT32_MAX) target = as_field(field, sampling);
    Flag flag(std::move(name), std::move(target), std::string(field.help));
    flag.shows_default = field.shows_default;
    flags.add("Sampling", {flag});
  }
}

}  // namespace

void add_run(CommandLine& line) {
  auto options = std::make_shared<RunOptions>();
  Flags flags = line.add("run", "Chat in the terminal, answer one message, or continue a text",
                         [options] { return finish(run(*options)); });
  add_model_flags(flags, options->model);
  flags.keep_unstored(&options->model.model);  // a server may have it
  add_adapter_flag(flags, options->model);
  add_prompts(flags, *options);
  options->server.add_to(flags);
  flags.add("Server", {{"--local", &options->local,
                        "load the model in this process even if a running server serves it; "
                        "flags of the model, the cache and speculation do so too"}});
  flags.add(
      "Structured output",
      {
          Flag("--json-schema", &options->json_schema, "answer in JSON that matches this schema")
              .called("FILE"),
          Flag("--regex", as_text(options->regex),
               "answer in text that matches this regular expression as a whole")
              .called("RE"),
          Flag("--grammar", &options->grammar, "answer in text of this GBNF or Lark grammar")
              .called("FILE"),
          Flag("--whitespace", &options->whitespace,
               "whitespace in JSON. spaced: at most one space after ':' and ','; compact: none; "
               "flexible: anywhere")
              .one_of({"spaced", "compact", "flexible"})
              .with_default(),
          Flag("--schema-language", &options->schema_language,
               "JSON that a schema allows. canonical: closed objects, keys in the schema's order, "
               "plain numbers; full: all of JSON Schema")
              .one_of({"canonical", "full"})
              .with_default(),
      });
  flags.exclude("--json-schema", {"--regex", "--grammar"});
  flags.exclude("--regex", {"--grammar"});
  options->tiers.add_to(flags);
  options->speculation.add_to(flags);
  add_sampling(flags, options->given.request.engine.sampling);
  flags.add("Sampling",
            {
                {"--seed", &options->given.request.seed,
                 "seed of the sampler; the same seed gives the same text (default: random)"},
                {"-n,--max-tokens,--n-predict", as_limit(options->max_tokens),
                 "maximum number of tokens to generate; -1: until the context is full (default: "
                 "256 with -p, -f, --tokens or a pipe, else -1)"},
                {"--reasoning-budget", &options->given.reasoning_budget,
                 "maximum number of reasoning tokens, after which the end of the reasoning is "
                 "forced (default: no limit); 0: no reasoning"},
                {"--stop", &options->stop, "end the answer before this text"},
                {"--ignore-eos", &options->given.request.ignore_eos,
                 "continue after an end-of-sequence token"},
            });
  flags.add("Observability",
            {
                {"--ids", &options->ids, "print token ids instead of text"},
                {"--stats", &options->given.stats,
                 "print time to first token, inter-token latency and cached tokens on stderr"},
                {"--no-cache", &options->no_cache,
                 "recompute the K and V of all tokens at every step, for comparison"},
            });
  flags.examples({
      "kvik run model.gguf                                 # a chat; /help lists its commands",
      "kvik run model.gguf \"What is this?\" < notes.txt     # one message about a text",
      "kvik run model.gguf -p \"Once upon a time\" -n 40     # continue a text",
  });
}

}  // namespace kvik
