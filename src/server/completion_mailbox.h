#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "service/service_api.h"

namespace kvik {

// Carries the news of one call's completions from the engine thread to the network thread. Neither
// waits for the other beyond a short lock.
//
// The limit bounds the text that waits; one chunk alone may be larger. Past it everything is
// dropped and has_overflowed() stays true: the stream has a hole and cannot go on.
class CompletionMailbox {
 public:
  // Network thread's view: what came since the last take().
  struct Mail {
    std::vector<CompletionChunk> chunks;
    std::optional<Usage> usage;  // of all completions together, once the last one is done
  };

  CompletionMailbox(size_t n_completions, std::optional<size_t> limit_bytes)
      : limit_bytes_(limit_bytes), n_running_(n_completions) {}

  // Any thread.
  void add(CompletionChunk chunk);
  void add_usage(const Usage& usage);

  Mail take();
  bool has_overflowed() const;

  // `wake` is called under the lock and must not call back. It comes once for all the news between
  // two take()s, and at once where there is some already.
  void set_wake(std::function<void()> wake);

  // No wake is running or will come when this has returned; later news are dropped.
  void close();

 private:
  void signal();  // under the lock

  mutable std::mutex mutex_;
  const std::optional<size_t> limit_bytes_;
  size_t n_running_;
  size_t waiting_bytes_ = 0;
  std::vector<CompletionChunk> chunks_;
  Usage usage_;
  std::function<void()> wake_;
  bool has_signalled_ = false;
  bool has_overflowed_ = false;
  bool is_closed_ = false;
};

// The engine's end of a mailbox, for one completion. Its choices are numbered from `first_choice`.
class MailboxSink final : public CompletionSink {
 public:
  // Shared: the engine may hold its end longer than the connection lives.
  MailboxSink(std::shared_ptr<CompletionMailbox> mailbox, uint32_t first_choice)
      : mailbox_(std::move(mailbox)), first_choice_(first_choice) {}

  void on_chunk(const CompletionChunk& chunk) override;
  void on_done(const Usage& usage) override { mailbox_->add_usage(usage); }

 private:
  std::shared_ptr<CompletionMailbox> mailbox_;
  uint32_t first_choice_;
};

}  // namespace kvik
