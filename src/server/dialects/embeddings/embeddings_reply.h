#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "server/dialects/embeddings/embeddings_request.h"
#include "server/dialects/json_body.h"
#include "server/dialects/key_accounts.h"
#include "server/handlers.h"
#include "server/http/byte_ledger.h"
#include "server/http/pending_reply.h"
#include "service/service_api.h"

namespace kvik {

// Results of one call's texts so far. Written by the engine thread, read by the network thread.
class EmbeddingsMailbox {
 public:
  struct Result {
    std::optional<std::vector<float>> embedding;  // absent: it was cut off
    Usage usage;
  };

  explicit EmbeddingsMailbox(size_t n) : results_(n) {}

  void put(size_t i, Result result);
  size_t n_done() const;
  // Called when all are done.
  std::vector<Result> take();

  // Like in CompletionMailbox: called under the lock; not called after close().
  void set_wake(std::function<void()> wake);
  void close() { set_wake(nullptr); }

 private:
  mutable Mutex mutex_;
  std::vector<Result> results_ GUARDED_BY(mutex_);
  size_t n_done_ GUARDED_BY(mutex_) = 0;
  std::function<void()> wake_ GUARDED_BY(mutex_);
};

// The results of a call, each with its embedding.
using EmbeddingResults = std::shared_ptr<const std::vector<EmbeddingsMailbox::Result>>;

// Writes the body of an answer in a dialect. `usage` is the sum over all texts.
using WriteEmbeddings = std::function<void(const EmbeddingResults&, const Usage&, JsonBody&)>;

// Appends the numbers as a JSON array.
void write_numbers(const std::vector<float>& numbers, std::string& out);

// Returns the memory of all embeddings of a call.
size_t numbers_bytes(const EmbeddingsCall& call, const ModelCard& card);

// Embeddings: one body when all texts are computed. Only a few texts are submitted at a time, so
// that a call of two thousand does not fill the queue. Network thread.
class EmbeddingsReply final : public PendingReply {
 public:
  // Borrows the service, which outlives this. The share is that of numbers_bytes().
  EmbeddingsReply(ServiceApi& service, EmbeddingsCall call, std::shared_ptr<KeyAccount> account,
                  WriteEmbeddings write, ByteShare share);
  ~EmbeddingsReply() override { mailbox_->close(); }

  // Submits the first texts; if that fails, there is no answer to wait for.
  Result<void> start();

  Kind kind() const override { return Kind::kWhole; }
  void set_wake(std::function<void()> wake) override { mailbox_->set_wake(std::move(wake)); }
  State advance(std::string& out) override;
  bool will_submit() const override;
  HttpResponse response() override;
  std::string final_error_event(const Error&) const override { return ""; }
  std::string summary() const override;

 private:
  Result<void> submit_next();

  ServiceApi& service_;
  const EmbeddingsCall call_;
  const std::shared_ptr<KeyAccount> account_;
  const WriteEmbeddings write_;
  std::shared_ptr<EmbeddingsMailbox> mailbox_;  // shared with the sinks, which the engine holds
  std::vector<std::unique_ptr<Completion>> running_;  // in the order of the texts
  ByteShare share_;                                   // memory of the embeddings
  std::optional<Error> error_;
  Usage usage_;  // sum of all texts
};

// Submits the call for the owner of the request's key; an error becomes the answer. `input`: the
// field of the texts, for errors.
Reply start_embeddings(const HandlerContext& context, const HttpRequest& request,
                       Result<EmbeddingsCall> call, std::string_view input, WriteEmbeddings write);

}  // namespace kvik
