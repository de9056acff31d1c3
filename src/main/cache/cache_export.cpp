#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/file/private_files.h"
#include "base/printable.h"
#include "base/process/interrupts.h"
#include "base/quantity.h"
#include "engine/cache_identity.h"
#include "host/progress_bar.h"
#include "library/library_model.h"
#include "main/cache/cache_client.h"
#include "main/cache/cache_commands.h"
#include "main/cache/prompt_file.h"
#include "main/cache/served_session.h"
#include "main/exit_code.h"
#include "main/load_for_one.h"
#include "main/model_flags.h"
#include "main/read_input.h"
#include "main/running/server_flags.h"
#include "main/scratch_folder.h"
#include "main/serve/chat_template_file.h"
#include "main/speculation_flags.h"
#include "service/request_bounds.h"
#include "tier/disk_tier.h"
#include "tier/prefix_file/export_prefix.h"
#include "tier/prefix_file/used_folder.h"

namespace kvik {
namespace {

constexpr uint64_t kNoSizeLimit = uint64_t{1} << 62;

struct CacheExportOptions {
  ModelOptions model;
  std::string prompt;   // path; empty: a session is exported
  std::string session;  // its id
  ServerFlags server;   // that has the session
  CacheClientFlags client;
  std::string format;  // empty: by the content
  std::string out;
  std::string chat_template;  // path; empty: the model's own
  std::string disk;           // empty: a folder that is removed at the end
  SpeculationFlags drafter;   // of the server: pages have the K and V of a head that drafts
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

// Computes the first n_tokens of the prefix and one token after them.
Result<Prefilled> compute_part(Service& service, const SharedPrefix& prefix, size_t n_tokens,
                               const ModelOptions& model, const std::string& salt) {
  const auto part = std::span(prefix.tokens).first(n_tokens);
  CompletionRequest request;
  request.engine.cache_salt = salt;
  request.prompt = std::vector<TokenId>(part.begin(), part.end());
  request.max_tokens = 1;
  request.seed = 0;
  request.ignore_eos = true;
  // A recurrent model keeps its state at a pin, but not after the last token.
  const auto n_before_last = static_cast<uint32_t>(n_tokens - 1);
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

// Computes the prefix up to each of its ends: a tier is asked only for the windows and the state at
// the end of a prompt. Returns how many tokens of the prefix were not computed.
Result<std::optional<uint32_t>> compute(Service& service, const SharedPrefix& prefix,
                                        const ModelOptions& model, const std::string& salt) {
  uint32_t n_done = 0, n_cached = 0;
  for (const uint32_t end : prefix.ends) {
    const auto n_tokens = std::min<size_t>(size_t{end} + 1, prefix.tokens.size());
    TRY_ASSIGN(const Prefilled usage, compute_part(service, prefix, n_tokens, model, salt));
    if (!usage) return std::nullopt;
    if (usage->cached_tokens > n_done) n_cached += usage->cached_tokens - n_done;
    n_done = usage->prompt_tokens;
  }
  return n_cached;
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

// The origin of the tokens: a file, or a session of a running server.
struct PrefixSource {
  std::string content;                   // of the file
  std::optional<ServedSession> session;  // std::nullopt: the file
};

Result<PrefixSource> read_source(const CacheExportOptions& options) {
  if (options.prompt.empty() == options.session.empty()) {
    return fail(ErrorCode::kInvalidArgument, options.prompt.empty()
                                                 ? "give --prompt FILE or --session ID"
                                                 : "give one of --prompt and --session, not both");
  }
  PrefixSource source;
  if (options.session.empty()) {
    TRY_ASSIGN(source.content, read_input(options.prompt));
    return source;
  }
  TRY_ASSIGN(const HttpClient server, options.server.client());
  TRY_ASSIGN(source.session, read_session(server, {.id = options.session,
                                                   .cache_salt = options.client.cache_salt,
                                                   .model = options.model.name}));
  return source;
}

// Returns the tokens of the source. A session's next prompt continues after the answer, or after
// the prompt if the template changes the answer.
Result<SharedPrefix> prefix_of(PrefixSource& source, const CacheExportOptions& options,
                               Service& service) {
  if (!source.session) {
    return read_shared_prefix(service, prompt_format(options.format, source.content),
                              source.content, options.prompt);
  }
  SharedPrefix prefix{.tokens = std::move(source.session->tokens),
                      .ends = {source.session->prompt_tokens}};
  const auto n_all = static_cast<uint32_t>(prefix.tokens.size());
  if (n_all > prefix.ends.back()) prefix.ends.push_back(n_all);
  return prefix;
}

Result<void> check_source(const PrefixSource& source, const CacheExportOptions& options,
                          const LoadedModel& loaded) {
  const uint64_t max_bytes = RequestBounds::body_bytes(loaded.n_ctx);
  if (source.content.size() > max_bytes) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} has {} bytes, expected at most {} for a context of {} tokens",
                            options.prompt, source.content.size(), max_bytes, loaded.n_ctx));
  }
  if (!source.session || source.session->weights_digest == loaded.model->fingerprint()) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("the session '{}' is of the model {}, but {} is the model {}",
                          options.session, printable(source.session->weights_digest),
                          options.model.model, loaded.model->fingerprint()));
}

// The tiers of an export: a folder of its own, or that of --disk. A folder that a server uses is
// read only.
struct ExportTiers {
  std::optional<ScratchFolder> scratch;
  std::unique_ptr<DiskTier> own;
  std::unique_ptr<UsedFolder> used;

  static Result<ExportTiers> open(const CacheExportOptions& options) {
    ExportTiers tiers;
    if (!options.disk.empty()) {
      auto opened = DiskTier::open({.folder = options.disk, .max_bytes = kNoSizeLimit});
      if (opened) {
        tiers.own = std::move(*opened);
        return tiers;
      }
      if (opened.error().code != ErrorCode::kUnavailable)
        return std::unexpected<Error>(opened.error());
      TRY_ASSIGN(tiers.used, UsedFolder::open(options.disk));
    }
    TRY_ASSIGN(ScratchFolder made, ScratchFolder::make(options.out + ".pages-"));
    tiers.scratch.emplace(std::move(made));
    TRY_ASSIGN(tiers.own,
               DiskTier::open({.folder = tiers.scratch->path(), .max_bytes = kNoSizeLimit}));
    return tiers;
  }

  std::vector<TierPlace> places() const {
    std::vector<TierPlace> all = {{.kind = TierKind::kDisk, .tier = own.get()}};
    if (used) all.push_back({.kind = TierKind::kSharedFolder, .tier = used.get()});
    return all;
  }
};

Result<int> export_cache(CacheExportOptions options) {
  TRY_ASSIGN(const CacheClient client, options.client.resolve());
  TRY_ASSIGN(std::string key, read_signing_key(options.key));
  TRY_ASSIGN(PrefixSource source, read_source(options));
  if (source.session) options.model.kv_type = source.session->kv_type;
  ServingOptions serving;
  if (!options.chat_template.empty()) {
    TRY_ASSIGN(serving.chat.chat_template, read_chat_template(options.chat_template));
  }
  TRY_ASSIGN(NewFile out, NewFile::create(options.out, kPrivateFile));
  Interrupts::catch_them();
  TRY_ASSIGN(const ExportTiers tiers, ExportTiers::open(options));
  TRY_ASSIGN(auto ready, load_for_one(options.model, options.drafter, tiers.places()));
  TRY(check_source(source, options, ready.loaded));
  const CacheIdentity identity = identity_of(*ready.loaded.model, ready.loaded.kv_type);
  const KvFootprint kv = ready.loaded.kv();
  ready.engine.kv_budget_bytes += snapshot_bytes(kv, ready.loaded.n_ctx);
  SharedPrefix prefix;
  std::optional<uint32_t> n_cached;
  {
    TRY_ASSIGN(const auto model,
               LibraryModel::create(std::move(ready.loaded), ready.engine, serving));
    TRY_ASSIGN(prefix, prefix_of(source, options, model->service()));
    TRY_ASSIGN(n_cached, compute(model->service(), prefix, options.model, client.salt));
  }  // the engine's destructor stores all pages
  if (!n_cached) return kExitInterrupted;
  TRY_ASSIGN(const PrefixFileHeader header, export_prefix(*tiers.own,
                                                          {.identity = identity,
                                                           .layout = kv.layout,
                                                           .salt = client.salt,
                                                           .tokens = prefix.tokens,
                                                           .ends = prefix.ends},
                                                          std::move(out), std::move(key)));
  streams::print("{}: {} of a prefix of {}, {} of {}{}\n", options.out,
                 counted(header.n_tokens, "token"), prefix.tokens.size(),
                 counted(header.n_records, "page"), format_bytes(header.page_bytes),
                 header.is_signed ? ", signed" : "");
  if (*n_cached > 0) {
    streams::print("{} were in {}\n", counted(*n_cached, "token"), options.disk);
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
              .called("FILE"),
          Flag("--session", &options->session,
               "in place of --prompt: a session of a running server, as /kvik/sessions lists it; "
               "its last prompt with the answer, and the server's KV type")
              .called("ID"),
          Flag("--format", &options->format,
               "what --prompt is: a text, or a body of /v1/chat/completions, /v1/messages or "
               "/v1/responses (default: chat if it begins with '{', else text)")
              .one_of({"text", "chat", "messages", "responses"}),
          Flag("--chat-template", &options->chat_template,
               "file with a Jinja chat template that replaces the model's own, as the server's")
              .called("FILE"),
          Flag("--disk", as_path(options->disk),
               "a folder of --disk that may have some of the pages and keeps them; while a server "
               "uses it, it is only read (default: a temporary folder beside OUT)")
              .called("DIR"),
          Flag("--draft", &options->drafter.draft,
               "the head that --draft of the server names, or none: pages have K and V of a head "
               "that drafts (default: as a server without --draft)")
              .is_model()
              .called("MODEL"),
          signing_key_flag(options->key, "sign the file with the secret in this file"),
      });
  options->server.add_to(flags);
  options->client.add_to(flags);
  flags.examples({
      "kvik cache export model.gguf agent.kvp --prompt request.json",
      "kvik cache export model.gguf work.kvp --session my-session --disk pages/",
      "kvik cache export model.gguf agent.kvp --prompt system.txt --key secret.txt",
  });
}

}  // namespace kvik
