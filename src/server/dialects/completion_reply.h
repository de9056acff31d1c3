#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/dialects/answer_writer.h"
#include "server/dialects/completion_mailbox.h"
#include "server/http/pending_reply.h"
#include "service/service_api.h"

namespace kvik {

// Running completions and their results. Destroying it cancels those that still run.
struct RunningCompletions {
  std::shared_ptr<CompletionMailbox> mailbox;  // shared with the sinks, which the engine holds
  std::vector<std::unique_ptr<Completion>> completions;
  std::vector<std::string> relaxed;   // Completion::relaxed() of all of them
  ByteShare share;                    // memory that the engine holds for them
  size_t attested_bytes = 0;          // of the share: what the answer repeats of attested requests
  bool has_room = true;               // false: the share had no room
  std::vector<std::string> left_out;  // CompletionCall::left_out
  std::string form_param;             // StructuredOutput::param; empty: none
  // called once when all have ended without an error, with the tokens of the first choice if
  // collects_ids; empty: not called
  std::function<void(std::span<const Usage>, std::span<const TokenId>)> on_usages = {};
  bool collects_ids = false;
  bool hides_ids = false;    // the client did not ask for token ids
  bool holds_calls = false;  // CompletionCall::holds_calls

  RunningCompletions() = default;
  RunningCompletions(RunningCompletions&&) = default;
  ~RunningCompletions() {
    if (mailbox) mailbox->close();
  }
};

// Common base of both kinds of answer. Network thread.
class CompletionReply : public PendingReply {
 public:
  // The id is for the log.
  CompletionReply(std::string id, std::unique_ptr<AnswerWriter> writer, RunningCompletions running)
      : id_(std::move(id)), writer_(std::move(writer)), running_(std::move(running)) {}

  void set_wake(std::function<void()> wake) override { mailbox().set_wake(std::move(wake)); }
  std::string_view heartbeat() const override { return writer_->heartbeat(); }
  std::string final_error_event(const Error& error) const override { return writer_->error(error); }
  std::string summary() const override;
  ReplyFacts facts() const override;

 protected:
  // Adds headers with relaxed constraints, and tools that were not shown to the model.
  HttpResponse with_headers(HttpResponse response) const;
  // Returns the error of a choice that failed; std::nullopt if it ended normally or still runs.
  std::optional<Error> error_of(std::optional<FinishReason> finish) const;
  CompletionMailbox& mailbox() const { return *running_.mailbox; }
  std::optional<CompletionChunk> take();
  // Reports usages_, if all are done. Call once.
  void note_usages();
  AnswerWriter& writer() { return *writer_; }
  size_t attested_bytes() const { return running_.attested_bytes; }
  bool holds_calls() const { return running_.holds_calls; }

  std::optional<std::vector<Usage>> usages_;  // one per prompt, when all are done

 private:
  std::string id_;
  std::unique_ptr<AnswerWriter> writer_;
  RunningCompletions running_;
  std::vector<TokenId> ids_;  // of the first choice, if collected
  std::optional<TimePoint> first_token_at_;
};

// Events, as they arrive.
class StreamedCompletion final : public CompletionReply {
 public:
  using CompletionReply::CompletionReply;
  Kind kind() const override { return Kind::kStream; }
  bool has_overflowed() const override { return mailbox().has_overflowed(); }
  State advance(std::string& out) override;
  HttpResponse response() override { return with_headers(writer().stream_head()); }

 private:
  bool take_output();
  CompletionChunk cut(CompletionChunk& chunk);

  std::optional<CompletionChunk> chunk_;  // chunk being written
  std::map<uint32_t, WholeCalls> calls_;  // of each choice
  size_t n_cut_ = 0;                      // number of its log probabilities written
  AnswerWriter::Events events_;           // events waiting to be sent
  bool has_begun_ = false;
  bool has_ended_ = false;
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
  bool has_memory_ = true;  // false: the answer did not fit
};

}  // namespace kvik
