#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/chat_events.h"
#include "server/completion_events.h"
#include "server/completion_mailbox.h"
#include "server/pending_reply.h"
#include "service/service_api.h"

namespace kvik {

// Running completions and where their news arrive. Destroying it cancels what still runs.
struct RunningCompletions {
  std::shared_ptr<CompletionMailbox> mailbox;  // shared with the sinks, which the engine holds
  std::vector<std::unique_ptr<Completion>> completions;

  RunningCompletions() = default;
  RunningCompletions(RunningCompletions&&) = default;
  ~RunningCompletions() {
    if (mailbox) mailbox->close();
  }
};

// What the two kinds of answer to /v1/completions and /v1/chat/completions share. Network thread.
class CompletionReply : public PendingReply {
 public:
  CompletionReply(CompletionEnvelope envelope, RunningCompletions running)
      : envelope_(std::move(envelope)), running_(std::move(running)) {}

  void set_wake(std::function<void()> wake) override { mailbox().set_wake(std::move(wake)); }
  bool has_overflowed() const override { return running_.mailbox->has_overflowed(); }
  std::string last_words(const Error& error) const override;
  std::string summary() const override;
  ReplyFacts facts() const override;

 protected:
  CompletionMailbox& mailbox() { return *running_.mailbox; }
  std::optional<CompletionChunk> take();

  CompletionEnvelope envelope_;
  std::optional<std::vector<Usage>> usages_;  // one for each prompt, when all are done

 private:
  RunningCompletions running_;
  std::optional<TimePoint> first_token_at_;
};

// Server-sent events, one for each chunk.
class StreamedCompletion final : public CompletionReply {
 public:
  using CompletionReply::CompletionReply;
  Kind kind() const override { return Kind::kStream; }
  State advance(std::string& out) override;
  HttpResponse response() override;

 private:
  ChatStream chat_;
};

// One JSON body when all choices have ended.
class WholeCompletion final : public CompletionReply {
 public:
  using CompletionReply::CompletionReply;
  Kind kind() const override { return Kind::kWhole; }
  State advance(std::string& out) override;
  HttpResponse response() override;

 private:
  std::vector<CompletionChoice> choices_;
  std::optional<Error> error_;
};

}  // namespace kvik
