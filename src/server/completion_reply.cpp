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
  if (!usages_) return fmt::format("{} unfinished", envelope_.id);
  const Usage usage = sum_of(*usages_);
  return fmt::format("{} prompt={} cached={} completion={}", envelope_.id, usage.prompt_tokens,
                     usage.cached_tokens, usage.completion_tokens);
}

ReplyFacts CompletionReply::facts() const {
  ReplyFacts facts{.id = envelope_.id, .usage = std::nullopt, .first_token_at = first_token_at_};
  if (usages_) facts.usage = sum_of(*usages_);
  return facts;
}

std::optional<CompletionChunk> CompletionReply::take() {
  auto chunk = mailbox().take();
  if (chunk && !first_token_at_) first_token_at_ = std::chrono::steady_clock::now();
  return chunk;
}

// One event a call: some clients take what one read gives them for one event.
PendingReply::State StreamedCompletion::advance(std::string& out) {
  while (const auto chunk = take()) {
    if (const auto error = error_of(chunk->finish)) {
      out += last_words(*error);
      return State::kDone;
    }
    if (!says_something(*chunk)) continue;
    const bool is_chat = envelope_.dialect == CompletionEnvelope::Dialect::kChat;
    out += is_chat ? chat_.event(envelope_, *chunk) : chunk_event(envelope_, *chunk);
    if (out.empty()) continue;
    return State::kRunning;
  }
  if (!usages_) {
    usages_ = mailbox().take_usages();
    if (!usages_) return State::kRunning;
    out += usage_event(envelope_, *usages_);
    if (!out.empty()) return State::kRunning;
  }
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
  while (auto chunk = take()) {
    if (chunk->choice >= choices_.size()) choices_.resize(chunk->choice + 1);
    if (!error_) error_ = error_of(chunk->finish);
    choices_[chunk->choice].append(std::move(*chunk));
  }
  usages_ = mailbox().take_usages();
  return usages_ || error_ ? State::kDone : State::kRunning;
}

HttpResponse WholeCompletion::response() {
  if (error_) return error_response(*error_);
  const auto to_json =
      envelope_.dialect == CompletionEnvelope::Dialect::kChat ? chat_json : completion_json;
  return {.status = 200,
          .body = to_json(envelope_, choices_, usages_.value_or(std::vector<Usage>()))};
}

}  // namespace kvik
