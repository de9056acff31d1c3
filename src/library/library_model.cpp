#include "library/library_model.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "base/file/new_file.h"
#include "base/file/private_files.h"
#include "base/mutex.h"
#include "base/process/memory_reserve.h"
#include "engine/cache_identity.h"
#include "host/build_info.h"
#include "host/load_draft.h"
#include "server/http/status.h"
#include "service/request_bounds.h"
#include "tier/prefix_file/export_prefix.h"
#include "tier/prefix_file/import_prefix.h"

namespace kvik {
namespace {

namespace json = boost::json;

std::unexpected<Error> no_memory_now() {
  return fail(ErrorCode::kExhausted, "there is no memory for this request now");
}

// Reserves the memory with which a step that runs out of memory ends.
Result<void> reserve_memory() {
  MemoryReserve::keep(MemoryReserve::kUsualBytes);
  if (MemoryReserve::is_kept()) return {};
  return fail(ErrorCode::kExhausted, "there is no memory to run a model");
}

ServerOptions local_options() {
  // Results wait until the program takes them; the ledger bounds them.
  constexpr size_t kStreamBytes = size_t{1} << 30;
  ServerOptions options;
  options.version = build_info().version;
  options.stream_buffer_bytes = kStreamBytes;
  return options;
}

// Passes on the events of a request, and lets another thread wait for its end.
class WaitingSink final : public EventSink {
 public:
  explicit WaitingSink(std::shared_ptr<EventSink> sink) : sink_(std::move(sink)) {}

  Verdict on_token(const TokenEvent& event) override {
    return sink_ ? sink_->on_token(event) : Verdict::kContinue;
  }
  void on_finish(FinishReason reason, const Usage& usage) override {
    if (sink_) sink_->on_finish(reason, usage);
    end(reason, usage);
  }
  void on_no_memory() override { end(FinishReason::kExhausted, {}); }
  void on_hidden(uint32_t position, std::span<const float> state) override {
    if (sink_) sink_->on_hidden(position, state);
  }
  void on_logits(uint32_t position, std::span<const float> logits) override {
    if (sink_) sink_->on_logits(position, logits);
  }

  Result<Usage> wait() {
    const MutexLock lock(mutex_);
    has_ended_.wait(mutex_, [this]() REQUIRES(mutex_) { return reason_.has_value(); });
    switch (*reason_) {
      case FinishReason::kStop:
      case FinishReason::kLength:
        return usage_;
      case FinishReason::kExhausted:
        return no_memory_now();
      case FinishReason::kCancelled:
        return fail(ErrorCode::kUnavailable, "the request was canceled");
      case FinishReason::kFailed:
        break;
    }
    return fail(ErrorCode::kIo, "the model's logits are not finite numbers");
  }

 private:
  void end(FinishReason reason, const Usage& usage) {
    const MutexLock lock(mutex_);
    reason_ = reason;
    usage_ = usage;
    has_ended_.notify_all();
  }

  const std::shared_ptr<EventSink> sink_;
  Mutex mutex_;
  CondVar has_ended_;
  std::optional<FinishReason> reason_ GUARDED_BY(mutex_);
  Usage usage_ GUARDED_BY(mutex_);
};

// Lets another thread wait for an embedding.
class WaitingEmbeddingSink final : public EmbeddingSink {
 public:
  void on_embedding(std::optional<std::vector<float>> embedding, const Usage&) override {
    const MutexLock lock(mutex_);
    embedding_ = std::move(embedding);
    has_ended_ = true;
    ended_.notify_all();
  }
  std::optional<std::vector<float>> wait() {
    const MutexLock lock(mutex_);
    ended_.wait(mutex_, [this]() REQUIRES(mutex_) { return has_ended_; });
    return std::move(embedding_);
  }

 private:
  Mutex mutex_;
  CondVar ended_;
  bool has_ended_ GUARDED_BY(mutex_) = false;
  std::optional<std::vector<float>> embedding_ GUARDED_BY(mutex_);
};

json::value token_json(std::optional<TokenId> id) {
  return id ? json::value(*id) : json::value(nullptr);
}

json::object pages_json(const PageCounts& pages) {
  return {{"free", pages.free},
          {"leased", pages.leased},
          {"sealed", pages.sealed},
          {"cached", pages.cached}};
}

json::object tier_json(const TierCounters& tier) {
  return {{"pages", tier.size.n_pages},          {"bytes", tier.size.n_bytes},
          {"pages_written", tier.pages_written}, {"pages_read", tier.pages_read},
          {"hit_tokens", tier.hit_tokens},       {"queue_pages", tier.queue_pages},
          {"write_errors", tier.write_errors}};
}

}  // namespace

LocalServer::LocalServer(ServiceApi& service)
    : options_(local_options()),
      memory_(RequestBounds::memory_bytes(service.card().n_ctx_max)),
      accounts_(std::nullopt),
      responses_({.total_bytes = RequestBounds::kept_bytes(service.card().n_ctx_max),
                  .bytes_of_key = RequestBounds::kept_bytes(service.card().n_ctx_max)}),
      background_([](int) {}),
      router_({service, options_, counts_, memory_, accounts_, responses_, pulls_, background_},
              is_draining_) {}

Reply LocalServer::handle(const HttpRequest& request) const {
  if (auto response = router_.answer_head(request)) return std::move(*response);
  Reply reply = router_.make(request, nullptr);
  while (const auto* later = std::get_if<std::unique_ptr<DeferredReply>>(&reply)) {
    Reply made = router_.make(request, later->get());
    reply = std::move(made);
  }
  return reply;
}

Result<std::shared_ptr<LibraryModel>> LibraryModel::open(const std::string& path,
                                                         std::string_view json, Progress progress) {
  TRY_ASSIGN(LibraryOptions options, read_library_options(json));
  options.model.model = path;
  options.model.on_progress = std::move(progress);
  TRY(reserve_memory());
  std::unique_ptr<DiskTier> disk;
  if (options.disk) {
    TRY_ASSIGN(disk, DiskTier::open(*options.disk));
    options.engine.tiers = {{.kind = TierKind::kDisk, .tier = disk.get()}};
  }
  const AdapterOptions& adapters = options.serving.adapters;
  const bool has_adapters = !adapters.named.empty() || !adapters.folder.empty();
  TRY_ASSIGN(LoadedModel loaded,
             load_model(options.model, options.engine,
                        {.kv_bytes = options.kv_bytes,
                         .adapter_bytes = has_adapters ? adapters.budget_bytes : 0,
                         .draft = options.draft}));
  if (!loaded.draft_spec.empty()) {
    TRY(load_draft(loaded.draft_spec, loaded, options.engine.max_running));
  }
  TRY_ASSIGN(auto model, create(std::move(loaded), options.engine, options.serving));
  model->disk_ = std::move(disk);
  return model;
}

Result<std::shared_ptr<LibraryModel>> LibraryModel::create(LoadedModel loaded,
                                                           const EngineOptions& engine,
                                                           const ServingOptions& serving) {
  TRY(reserve_memory());
  std::shared_ptr<LibraryModel> model(new LibraryModel);
  model->adapter_ = loaded.adapter;
  model->identity_ = identity_of(*loaded.model, loaded.kv_type);
  model->layout_ = loaded.kv().layout;
  TRY_ASSIGN(model->instance_, Instance::create(std::move(loaded), engine, serving));
  model->server_ = std::make_unique<LocalServer>(model->service());
  return model;
}

Result<void> LibraryModel::check_memory() {
  if (!MemoryReserve::restore()) return no_memory_now();
  return {};
}

Result<void> LibraryModel::check_room(size_t n_tokens, size_t n_more) const {
  const size_t n_ctx = card().n_ctx_max;
  if (n_tokens <= n_ctx && n_more <= n_ctx - n_tokens) return {};
  return fail(ErrorCode::kContextLength,
              n_tokens == 0 ? fmt::format("{} tokens do not fit the context of {}", n_more, n_ctx)
                            : fmt::format("{} and {} tokens do not fit the context of {}", n_tokens,
                                          n_more, n_ctx));
}

Result<Usage> LibraryModel::compute(Request request, const std::shared_ptr<EventSink>& sink) const {
  TRY(check_memory());
  if (!request.adapter) request.adapter = adapter_;
  const auto waiting = std::make_shared<WaitingSink>(sink);
  TRY(instance_->engine().submit(std::move(request), waiting));
  return waiting->wait();
}

Result<std::vector<float>> LibraryModel::embed(EmbeddingRequest request) const {
  TRY(check_memory());
  const auto sink = std::make_shared<WaitingEmbeddingSink>();
  TRY_ASSIGN(const auto running, service().embed(std::move(request), sink));
  auto embedding = sink->wait();
  if (!embedding) return fail(ErrorCode::kIo, "the embedding could not be computed");
  if (!are_finite(*embedding)) return fail(ErrorCode::kIo, std::string(kNotFinite));
  return std::move(*embedding);
}

Result<DiskTier*> LibraryModel::disk() const {
  if (disk_) return disk_.get();
  return fail(ErrorCode::kUnsupported,
              "pages are exported from and imported to a folder: open the model with the option "
              "'disk'");
}

// Waits until all pages that the engine has sealed are in the folder.
Result<void> LibraryModel::wait_for_writes() const {
  constexpr auto kPause = std::chrono::milliseconds(5);
  constexpr auto kAtMost = std::chrono::minutes(1);
  const TimePoint end = std::chrono::steady_clock::now() + kAtMost;
  while (true) {
    const auto tiers = service().snapshot().tiers;
    if (tiers[static_cast<size_t>(TierKind::kDisk)].queue_pages == 0) return {};
    if (std::chrono::steady_clock::now() > end) {
      return fail(ErrorCode::kIo, "the pages were not written within a minute");
    }
    std::this_thread::sleep_for(kPause);
  }
}

Result<void> LibraryModel::export_pages(std::span<const TokenId> tokens,
                                        const std::string& path) const {
  TRY_ASSIGN(DiskTier * tier, disk());
  TRY(wait_for_writes());
  TRY_ASSIGN(NewFile out, NewFile::create(path, kPrivateFile));
  TRY(export_prefix(*tier,
                    {.identity = identity_,
                     .layout = *layout_,
                     .tokens = tokens,
                     .ends = {static_cast<uint32_t>(tokens.size())}},
                    std::move(out), {}));
  return {};
}

Result<uint32_t> LibraryModel::import_pages(const std::string& path) const {
  TRY_ASSIGN(DiskTier * tier, disk());
  TRY_ASSIGN(PrefixFileReader file, PrefixFileReader::open(path, {}));
  const PrefixFileHeader& header = file.header();
  if (header.identity != identity_) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' has pages of '{}', expected those of '{}'", path,
                            printable(header.identity.text()), identity_.text()));
  }
  TRY(import_prefix(file, *tier));
  return header.n_tokens;
}

std::string LibraryModel::info() const {
  const ModelCard& card = this->card();
  return json::serialize(json::object{{"id", card.id.text()},
                                      {"architecture", card.architecture.text()},
                                      {"n_ctx", card.n_ctx_max},
                                      {"n_ctx_train", card.n_ctx_train},
                                      {"n_vocab", card.n_vocab},
                                      {"model_dim", card.model_dim},
                                      {"bos_token", token_json(instance_->tokenizer().bos())},
                                      {"eos_token", token_json(instance_->tokenizer().eos())},
                                      {"kv_type", card.kv_type},
                                      {"kv_tokens", card.kv_tokens},
                                      {"page_tokens", card.page_tokens},
                                      {"backend", card.backend},
                                      {"numerics", card.numerics},
                                      {"has_chat_template", !card.chat_template.empty()},
                                      {"n_parameters", card.weights.n_parameters},
                                      {"weight_bytes", card.weights.n_bytes},
                                      {"weight_type", card.weights.type},
                                      {"digest", card.weights.digest}});
}

std::string LibraryModel::statistics() const {
  const EngineSnapshot now = service().snapshot();
  json::object out{{"running", now.n_running},
                   {"waiting", now.n_waiting},
                   {"steps", now.steps},
                   {"computed_prompt_tokens", now.prompt_tokens},
                   {"cached_prompt_tokens", now.cached_tokens},
                   {"generated_tokens", now.generated_tokens},
                   {"drafted_tokens", now.speculation.drafted_tokens},
                   {"accepted_tokens", now.speculation.accepted_tokens},
                   {"preemptions", now.preemptions},
                   {"evictions", now.evictions},
                   {"pages", pages_json(now.pages)},
                   {"page_bytes", now.page_bytes},
                   {"kv_budget_bytes", now.kv_budget_bytes}};
  const TierCounters& disk = now.tiers[static_cast<size_t>(TierKind::kDisk)];
  if (disk.is_on) out["disk"] = tier_json(disk);
  return json::serialize(out);
}

}  // namespace kvik
