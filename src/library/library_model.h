#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/token_id.h"
#include "host/instance.h"
#include "kv/cache_identity.h"
#include "kv/kv_layout.h"
#include "library/model_options.h"
#include "server/dialects/key_accounts.h"
#include "server/dialects/ollama/model_pulls.h"
#include "server/dialects/responses/background_responses.h"
#include "server/dialects/responses/responses_store.h"
#include "server/http/byte_ledger.h"
#include "server/http/http_counts.h"
#include "server/http/http_message.h"
#include "server/http/pending_reply.h"
#include "server/router.h"
#include "server/server_options.h"

namespace kvik {

// The server's request handling without a network: the same routes, dialects and bounds. Any
// thread.
class LocalServer {
 public:
  // Borrows the service.
  explicit LocalServer(ServiceApi& service);

  // Answers a request, which must exist as long as the reply. The reply is never deferred: whatever
  // must be prepared is prepared on this thread.
  Reply handle(const HttpRequest& request) const;

 private:
  const ServerOptions options_;
  HttpCounts counts_;
  HttpMemory memory_;
  const KeyAccounts accounts_;
  ResponseStore responses_;
  ModelPulls pulls_;
  BackgroundResponses background_;
  const std::atomic<bool> is_draining_ = false;
  const Router router_;
};

// A model in this process, of a program that uses the library or of `kvik run`. Shared by its
// requests and sessions. Any thread.
class LibraryModel {
 public:
  using Progress = std::function<void(uint64_t, uint64_t)>;
  // Loads a model. Errors: those of read_library_options(), load_model(), DiskTier::open() and
  // create().
  static Result<std::shared_ptr<LibraryModel>> open(const std::string& path,
                                                    std::string_view options, Progress progress);
  // Starts the engine of a loaded model. Objects that `engine` borrows must outlive the model.
  // Errors: kExhausted if there is no memory for the engine's reserve; those of Instance::create().
  static Result<std::shared_ptr<LibraryModel>> create(LoadedModel loaded,
                                                      const EngineOptions& engine,
                                                      const ServingOptions& serving = {});

  Service& service() const { return instance_->service(); }
  const ModelCard& card() const { return service().card(); }
  const LocalServer& server() const { return *server_; }

  // Returns kExhausted if the memory reserve of the engine was used up and cannot be restored: a
  // step that runs out of memory could then not be ended.
  static Result<void> check_memory();
  // Returns kContextLength if n_more tokens after n_tokens do not fit the context.
  Result<void> check_room(size_t n_tokens, size_t n_more) const;

  // Runs a request of the engine, with the model's default adapter, and returns when it has
  // finished. Errors: those of check_memory() and EngineThread::submit(); kIo if the logits are not
  // finite.
  Result<Usage> compute(Request request, const std::shared_ptr<EventSink>& sink = nullptr) const;

  // Computes the embedding of the tokens, and returns it when it is done. Errors: those of
  // check_memory() and ServiceApi::embed().
  Result<std::vector<float>> embed(EmbeddingRequest request) const;

  // Writes the pages of a computed prefix to a file, as `kvik cache export` does. Errors:
  // kUnsupported without a folder of pages; those of export_prefix().
  Result<void> export_pages(std::span<const TokenId> tokens, const std::string& path) const;
  // Stores the pages of such a file in the folder of pages, and returns the number of tokens.
  // Errors: kUnsupported without one; kInvalidArgument for pages of another model, build or KV
  // type; those of PrefixFileReader and import_prefix().
  Result<uint32_t> import_pages(const std::string& path) const;

  // Returns properties of the model, and counters of engine and cache, as JSON.
  std::string info() const;
  std::string statistics() const;

 private:
  LibraryModel() = default;

  Result<DiskTier*> disk() const;
  Result<void> wait_for_writes() const;

  // Members are in the order in which they borrow from each other.
  std::unique_ptr<DiskTier> disk_;  // null: none
  CacheIdentity identity_;
  std::optional<KvLayout> layout_;
  std::shared_ptr<const Adapter> adapter_;  // of requests that choose none
  std::unique_ptr<Instance> instance_;
  std::unique_ptr<LocalServer> server_;
};

}  // namespace kvik
