#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "base/process/interrupts.h"
#include "host/instance.h"
#include "host/load_draft.h"
#include "main/commands.h"
#include "main/exit_code.h"
#include "main/run_options.h"
#include "service/sampling_fields.h"

namespace kvik {
namespace {

constexpr char kRunFooter[] = R"(In a terminal, /help lists what a chat understands:
  kvik run MODEL                                a chat
  kvik run MODEL "Why is the sky blue?"         one message, one answer
  kvik run MODEL "What is this?" < notes.txt    a message about a text
  kvik run MODEL -p "Once upon a time"          a text goes on)";

// States of more would take from the pages of the one.
constexpr uint32_t kConversations = 1;

Result<int> run(RunOptions options) {
  const auto read = read_task(options);
  if (!read) {
    // A model that is not there comes first.
    TRY(open_model(options.model.model));
    return std::unexpected(read.error());
  }
  const RunTask& task = *read;
  TRY_ASSIGN(options.given.request.form, read_form(options));
  TRY_ASSIGN(const auto tiers, options.tiers.open());
  TRY_ASSIGN(LoadedModel loaded, load_model(options.model));
  if (!options.speculation.draft.empty())
    TRY(load_draft(options.speculation.draft, loaded, kConversations));
  const EngineOptions engine{
      .kv_budget_bytes = loaded.kv().budget(loaded.n_ctx, kConversations, tiers.places()),
      .max_running = kConversations,
      .tiers = tiers.places(),
      .speculation = options.speculation.options};
  TRY_ASSIGN(const auto instance, Instance::create(std::move(loaded), engine));
  Interrupts::catch_them();
  auto code = task.kind == RunTask::Kind::kChat ? run_chat(instance->service(), options)
                                                : run_once(instance->service(), options, task);
  if (tiers.places().empty()) return code;
  streams::flush();
  Interrupts::end_within(kTierTime, code ? *code : exit_code(code.error()));  // a tier may hang
  return code;
}

// A count, or llama.cpp's -1 for none.
Words as_limit(std::optional<uint64_t>& value) {
  Words words = as_count(value);
  words.read = [&value, read = std::move(words.read)](const std::string& text) {
    if (text != "-1") return read(text);
    value = RunOptions::kNoLimit;
    return std::string();
  };
  return words;
}

// One of them, or none for a chat.
void add_prompts(Flags& flags, RunOptions& options) {
  flags.add({
      {"TEXT", &options.text, "one message of a chat (default: those you type)"},
      {"-p,--prompt", as_text(options.prompt),
       "continue this text as it stands (a pipe does the same)"},
      Flag("-f,--file", &options.file,
           "continue the text in this file; with TEXT: what the message is about (so does a "
           "pipe)")
          .called("FILE"),
      {"--tokens", &options.tokens, "continue these ids, fed exactly as they stand"},
      {"--system", &options.system, "the system prompt of a chat"},
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
    const Flag::Target target =
        std::visit([&](auto member) -> Flag::Target { return &(sampling.*member); }, field.member);
    Flag flag(std::move(name), target, std::string(field.help));
    flag.shows_default = field.shows_default;
    flags.add(flag);
  }
}

}  // namespace

void add_run(CommandLine& line) {
  auto options = std::make_shared<RunOptions>();
  Flags flags = line.add("run", "chat in the terminal, answer a message, or continue a text",
                         [options] { return finish(run(*options)); });
  flags.end_with(kRunFooter);
  add_model_flags(flags, options->model);
  add_adapter_flag(flags, options->model);
  add_prompts(flags, *options);
  flags.add({
      {"-n,--max-tokens,--n-predict", as_limit(options->max_tokens),
       "tokens to generate at most; -1: as many as the context holds (default: 256 where a text "
       "is continued, else -1)"},
      {"--stop", &options->stop, "end the answer before this text"},
      Flag("--json-schema", &options->json_schema, "answer in JSON that keeps to this schema")
          .called("FILE"),
      Flag("--regex", as_text(options->regex),
           "answer in a text that matches this whole expression")
          .called("RE"),
      Flag("--grammar", &options->grammar,
           "answer in a text of this grammar, in llama.cpp's dialect or Lark's")
          .called("FILE"),
      Flag("--whitespace", &options->whitespace,
           "in JSON: one blank at most after ':' and ',', none, or as the model likes")
          .one_of({"spaced", "compact", "flexible"})
          .with_default(),
      Flag("--schema-language", &options->schema_language,
           "of --json-schema and %json: closed objects, keys in order, plain numbers; or all of "
           "JSON Schema")
          .one_of({"canonical", "full"})
          .with_default(),
  });
  flags.exclude("--json-schema", {"--regex", "--grammar"});
  flags.exclude("--regex", {"--grammar"});
  options->tiers.add_to(flags);
  options->speculation.add_to(flags);
  add_sampling(flags, options->given.request.engine.sampling);
  flags.add({
      {"--seed", &options->given.request.seed,
       "the same seed gives the same text (default: random)"},
      {"--ids", &options->ids, "print token ids instead of text"},
      {"--stats", &options->given.stats, "print TTFT, ITL and cached tokens on stderr"},
      {"--ignore-eos", &options->given.request.ignore_eos, "an end token does not stop"},
      {"--no-cache", &options->no_cache, "compute all K and V again for every token"},
  });
}

}  // namespace kvik
