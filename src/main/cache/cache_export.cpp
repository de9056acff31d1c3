#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/file/private_files.h"
#include "base/process/interrupts.h"
#include "base/quantity.h"
#include "engine/cache_identity.h"
#include "host/instance.h"
#include "host/progress_bar.h"
#include "main/cache/cache_commands.h"
#include "main/cache/prompt_file.h"
#include "main/exit_code.h"
#include "main/load_for_one.h"
#include "main/model_flags.h"
#include "main/read_input.h"
#include "main/scratch_folder.h"
#include "main/serve/chat_template_file.h"
#include "service/request_bounds.h"
#include "tier/disk_tier.h"
#include "tier/prefix_file/export_prefix.h"

namespace kvik {
namespace {

constexpr uint64_t kNoSizeLimit = uint64_t{1} << 62;

struct CacheExportOptions {
  ModelOptions model;
  std::string prompt;  // path
  std::string format;  // empty: by the content
  std::string out;
  std::string chat_template;  // path; empty: the model's own
  std::string disk;           // empty: a folder that is removed at the end
  std::string key;            // path; empty: not signed
};

// Waits for the prompt to be computed. The engine thread calls it.
class PrefillSink final : public CompletionSink {
 public:
  void on_prompt(const PromptProgress& progress) override {
    bar_.show(progress.n_done, progress.n_all,
              fmt::format("{} of {} tokens", progress.n_done, progress.n_all));
  }
  void on_chunk(CompletionChunk chunk) override {
    if (chunk.finish) has_failed_ = *chunk.finish == FinishReason::kFailed;
  }
  void on_done(const Usage& usage) override {
    usage_ = usage;
    Interrupts::notify();
  }
  void on_no_memory() override {
    has_failed_ = true;
    Interrupts::notify();
  }

  // Valid after the main thread was notified.
  bool has_failed() const { return has_failed_; }
  const Usage& usage() const { return usage_; }

 private:
  ProgressBar bar_{"computing the prompt"};
  bool has_failed_ = false;
  Usage usage_;
};

// The end of computing a prefix: what it took, or nothing if the user interrupted it.
using Prefilled = std::optional<Usage>;

// Computes the prefix and one token after it.
Result<Prefilled> compute(Service& service, const SharedPrefix& prefix, const ModelOptions& model) {
  CompletionRequest request;
  request.prompt = prefix.tokens;
  request.max_tokens = 1;
  request.seed = 0;
  request.ignore_eos = true;
  // A recurrent model keeps its state at a pin, but not after the last token.
  const auto n_before_last = static_cast<uint32_t>(prefix.tokens.size() - 1);
  for (const uint32_t end : prefix.ends) {
    request.engine.pins.push_back({std::min(end, n_before_last), std::chrono::hours(1)});
  }
  const auto sink = std::make_shared<PrefillSink>();
  TRY_ASSIGN(auto completion, service.complete(std::move(request), sink));
  if (Interrupts::wait()) {
    completion.reset();
    return Prefilled();
  }
  if (!sink->has_failed()) return Prefilled(sink->usage());
  return fail(ErrorCode::kCorrupt,
              fmt::format("{}: the model's logits are not finite numbers", model.model));
}

// Returns the bytes of the snapshots that a recurrent model keeps of a prompt that fills the
// context: at its ends, and at distances that double from a snapshot's size on (SnapshotPolicy). No
// page may be evicted before it is stored.
uint64_t snapshot_bytes(const KvFootprint& kv, uint64_t n_ctx) {
  constexpr uint64_t kEnds = 4;
  const KvLayout& layout = kv.layout;
  if (!layout.has_state()) return 0;
  const uint64_t n_doublings = std::bit_width(n_ctx * kv.bytes_per_token / layout.state_bytes);
  return (kEnds + n_doublings) * layout.state_slot_bytes();
}

Result<int> export_cache(CacheExportOptions options) {
  TRY_ASSIGN(std::string key, read_signing_key(options.key));
  TRY_ASSIGN(const std::string content, read_input(options.prompt));
  ServingOptions serving;
  if (!options.chat_template.empty()) {
    TRY_ASSIGN(serving.chat.chat_template, read_chat_template(options.chat_template));
  }
  TRY_ASSIGN(NewFile out, NewFile::create(options.out, kPrivateFile));
  std::optional<ScratchFolder> scratch;
  if (options.disk.empty()) {
    TRY_ASSIGN(ScratchFolder made, ScratchFolder::make(options.out + ".pages-"));
    scratch.emplace(std::move(made));
  }
  Interrupts::catch_them();
  TRY_ASSIGN(const auto tier, DiskTier::open({.folder = scratch ? scratch->path() : options.disk,
                                              .max_bytes = kNoSizeLimit}));
  TRY_ASSIGN(auto ready,
             load_for_one(options.model, {}, {{.kind = TierKind::kDisk, .tier = tier.get()}}));
  const uint64_t max_bytes = RequestBounds::body_bytes(ready.loaded.n_ctx);
  if (content.size() > max_bytes) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} has {} bytes, expected at most {} for a context of {} tokens",
                            options.prompt, content.size(), max_bytes, ready.loaded.n_ctx));
  }
  const CacheIdentity identity = identity_of(*ready.loaded.model, ready.loaded.kv_type);
  const KvFootprint kv = ready.loaded.kv();
  ready.engine.kv_budget_bytes += snapshot_bytes(kv, ready.loaded.n_ctx);
  SharedPrefix prefix;
  Prefilled usage;
  {
    TRY_ASSIGN(const auto instance,
               Instance::create(std::move(ready.loaded), ready.engine, serving));
    TRY_ASSIGN(prefix,
               read_shared_prefix(instance->service(), prompt_format(options.format, content),
                                  content, options.prompt));
    TRY_ASSIGN(usage, compute(instance->service(), prefix, options.model));
  }  // the engine's destructor stores all pages
  if (!usage) return kExitInterrupted;
  TRY_ASSIGN(
      const PrefixFileHeader header,
      export_prefix(
          *tier,
          {.identity = identity, .layout = kv.layout, .tokens = prefix.tokens, .ends = prefix.ends},
          std::move(out), std::move(key)));
  streams::print("{}: {} of a prefix of {}, {} of {}{}\n", options.out,
                 counted(header.n_tokens, "token"), prefix.tokens.size(),
                 counted(header.n_records, "page"), format_bytes(header.page_bytes),
                 header.is_signed ? ", signed" : "");
  if (usage->cached_tokens > 0) {
    streams::print("{} were in {}\n", counted(usage->cached_tokens, "token"), options.disk);
  }
  return kExitOk;
}

}  // namespace

void add_cache_export(CommandLine& line, const Flags& cache) {
  auto options = std::make_shared<CacheExportOptions>();
  Flags flags = line.add(cache, "export", "Compute a prompt and write its pages to a file",
                         [options] { return finish(export_cache(*options)); });
  add_model_flags(flags, options->model);
  flags.add(
      "Prefix",
      {
          Flag("OUT", &options->out,
               "the file to write, such as agent.kvp; it appears only when it is complete")
              .required(),
          Flag("--prompt", &options->prompt,
               "file with the prompt: a text, or the body of a request in JSON (messages and "
               "tools); - reads stdin")
              .called("FILE")
              .required(),
          Flag("--format", &options->format,
               "what --prompt is: a text, or a body of /v1/chat/completions, /v1/messages or "
               "/v1/responses (default: chat if it begins with '{', else text)")
              .one_of({"text", "chat", "messages", "responses"}),
          Flag("--chat-template", &options->chat_template,
               "file with a Jinja chat template that replaces the model's own, as the server's")
              .called("FILE"),
          Flag("--disk", as_path(options->disk),
               "a folder of --disk that may have some of the pages and keeps them (default: "
               "a temporary folder beside OUT)")
              .called("DIR"),
          signing_key_flag(options->key, "sign the file with the secret in this file"),
      });
  flags.examples({
      "kvik cache export model.gguf agent.kvp --prompt request.json",
      "kvik cache export model.gguf agent.kvp --prompt system.txt --key secret.txt",
  });
}

}  // namespace kvik
