#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "server/dialects/key_accounts.h"
#include "server/http/byte_ledger.h"
#include "service/service_api.h"

namespace kvik {

// Passes the results of one call's completions from the engine thread to the network thread.
// Neither waits for the other beyond a short lock.
//
// With a limit, for a stream: a slightly late reader receives every chunk separately. For a slower
// reader, chunks of a choice are merged, so that waiting results take little more than their text.
// The limit bounds the waiting results; a single chunk may be larger. Without a limit, all results
// are kept until the answer is sent, and the ledger counts them. Beyond the limit, or if the ledger
// has no room, everything is dropped and has_overflowed() remains true: the answer is incomplete.
class CompletionMailbox {
 public:
  CompletionMailbox(size_t n_completions, std::optional<size_t> limit_bytes, ByteShare share = {})
      : limit_bytes_(limit_bytes),
        n_running_(n_completions),
        usages_(n_completions),
        share_(std::move(share)) {}

  // Any thread. `completion` is an index in the order of the call's prompts.
  void set_prompt(const PromptProgress& prompt);  // called when the first prompt is computed
  void add(CompletionChunk chunk);
  void add_usage(size_t completion, const Usage& usage);
  // Drops everything, as beyond the limit. Called if there is no memory for a result.
  void overflow();

  // Returns the oldest waiting chunk.
  std::optional<CompletionChunk> take();
  // Returns one usage per completion when all are done and nothing else waits.
  std::optional<std::vector<Usage>> take_usages();
  // Returns the progress of the first prompt; zeros before it is computed.
  PromptProgress prompt() const;
  bool has_overflowed() const;

  // `wake` is called under the lock and must not call back. It is called once for all results
  // between two calls of take(), and at once if there are some already.
  void set_wake(std::function<void()> wake);

  // After this returns, no wake is running or will follow; later results are dropped, and the
  // ledger is not used.
  void close();

  // Returns the share of all chunks that were taken: it belongs to the answer made from them.
  ByteShare take_share();

 private:
  bool merge(CompletionChunk& chunk) REQUIRES(mutex_);
  bool is_within_bounds() REQUIRES(mutex_);
  void drop_all() REQUIRES(mutex_);
  void signal() REQUIRES(mutex_);

  mutable Mutex mutex_;
  const std::optional<size_t> limit_bytes_;
  size_t n_running_ GUARDED_BY(mutex_);
  size_t waiting_bytes_ GUARDED_BY(mutex_) = 0;  // size of all waiting chunks but the oldest
  std::deque<CompletionChunk> chunks_ GUARDED_BY(mutex_);
  size_t held_bytes_ GUARDED_BY(mutex_) = 0;   // bytes counted in the share
  size_t taken_bytes_ GUARDED_BY(mutex_) = 0;  // bytes of the chunk that a stream is writing
  std::vector<Usage> usages_ GUARDED_BY(mutex_);
  ByteShare share_ GUARDED_BY(mutex_);
  PromptProgress prompt_ GUARDED_BY(mutex_);
  std::function<void()> wake_ GUARDED_BY(mutex_);
  bool has_signalled_ GUARDED_BY(mutex_) = false;
  bool has_overflowed_ GUARDED_BY(mutex_) = false;
  bool is_closed_ GUARDED_BY(mutex_) = false;
};

// The engine's side of a mailbox, for one completion. Its choices are numbered from `first_choice`.
class MailboxSink final : public CompletionSink {
 public:
  // The mailbox is shared, because the engine may hold this longer than the connection exists.
  MailboxSink(std::shared_ptr<CompletionMailbox> mailbox, std::shared_ptr<KeyAccount> account,
              size_t completion, uint32_t first_choice)
      : mailbox_(std::move(mailbox)),
        account_(std::move(account)),
        completion_(completion),
        first_choice_(first_choice) {}

  void on_prompt(const PromptProgress& progress) override;
  void on_chunk(CompletionChunk chunk) override;
  void on_done(const Usage& usage) override {
    account_->add(usage);
    mailbox_->add_usage(completion_, usage);
  }
  void on_abandoned(const Usage& usage) override { account_->add(usage); }
  void on_no_memory() override { mailbox_->overflow(); }

 private:
  std::shared_ptr<CompletionMailbox> mailbox_;
  std::shared_ptr<KeyAccount> account_;
  size_t completion_;
  uint32_t first_choice_;
};

}  // namespace kvik
