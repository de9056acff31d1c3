#include "server/completion_reply.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/status.h"

namespace kvik {
namespace {

// A choice that did not end by itself, as an error; nullopt for one that did, or still runs.
std::optional<Error> error_of(std::optional<FinishReason> finish) {
  if (finish == FinishReason::kFailed)
    return Error{ErrorCode::kIo, "the engine could not finish this completion"};
  if (finish == FinishReason::kCancelled)
    return Error{ErrorCode::kUnavailable, "this completion was cut off: the server is stopping"};
  return std::nullopt;
}

bool says_something(const CompletionChunk& chunk) {
  return !chunk.text.empty() || !chunk.token_ids.empty() || !chunk.logprobs.empty() ||
         chunk.finish.has_value();
}

}  // namespace

std::string CompletionReply::last_words(const Error& error) const {
  return error_event(error).append(kDoneEvent);
}

std::string CompletionReply::summary() const {
  if (!usage_) return fmt::format("{} unfinished", envelope_.id);
  return fmt::format("{} prompt={} cached={} completion={}", envelope_.id, usage_->prompt_tokens,
                     usage_->cached_tokens, usage_->completion_tokens);
}

PendingReply::State StreamedCompletion::advance(std::string& out) {
  CompletionMailbox::Mail mail = mailbox().take();
  for (const CompletionChunk& chunk : mail.chunks) {
    if (const auto error = error_of(chunk.finish)) {
      out += last_words(*error);
      return State::kDone;
    }
    if (says_something(chunk)) out += chunk_event(envelope_, chunk);
  }
  if (!mail.usage) return State::kRunning;
  usage_ = mail.usage;
  if (envelope_.include_usage) out += usage_event(envelope_, *usage_);
  out += kDoneEvent;
  return State::kDone;
}

HttpResponse StreamedCompletion::response() {
  // The last one keeps nginx from holding events back.
  return {.status = 200,
          .body = "",
          .content_type = "text/event-stream; charset=utf-8",
          .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}};
}

PendingReply::State WholeCompletion::advance(std::string&) {
  CompletionMailbox::Mail mail = mailbox().take();
  for (CompletionChunk& chunk : mail.chunks) {
    if (chunk.choice >= choices_.size()) choices_.resize(chunk.choice + 1);
    if (!error_) error_ = error_of(chunk.finish);
    choices_[chunk.choice].append(std::move(chunk));
  }
  usage_ = mail.usage;
  return usage_ || error_ ? State::kDone : State::kRunning;
}

HttpResponse WholeCompletion::response() {
  if (error_) return error_response(*error_);
  return {.status = 200, .body = completion_json(envelope_, choices_, usage_.value_or(Usage{}))};
}

}  // namespace kvik
