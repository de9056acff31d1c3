#include "server/dialects/completion_reply.h"

#include <fmt/format.h>

#include <utility>

#include "server/http/status.h"

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

std::string CompletionReply::summary() const {
  if (!usages_) return fmt::format("{} unfinished", id_);
  const Usage usage = sum_of(*usages_);
  return fmt::format("{} prompt={} cached={} completion={}", id_, usage.prompt_tokens,
                     usage.cached_tokens, usage.completion_tokens);
}

ReplyFacts CompletionReply::facts() const {
  ReplyFacts facts{.id = id_, .usage = std::nullopt, .first_token_at = first_token_at_};
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
  while (events_.empty() && !has_ended_)
    if (!take_news()) return State::kRunning;
  if (!events_.empty()) {
    out += events_.front();
    events_.pop_front();
  }
  return has_ended_ && events_.empty() ? State::kDone : State::kRunning;
}

// False where there is none.
bool StreamedCompletion::take_news() {
  if (const auto chunk = take()) {
    if (const auto error = error_of(chunk->finish)) {
      events_.push_back(last_words(*error));
      has_ended_ = true;
    } else if (says_something(*chunk)) {
      if (!std::exchange(has_begun_, true)) writer().begin(mailbox().prompt(), events_);
      writer().chunk(*chunk, events_);
    }
    return true;
  }
  usages_ = mailbox().take_usages();
  if (!usages_) return false;
  writer().end(*usages_, events_);
  has_ended_ = true;
  return true;
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
  return {.status = 200, .body = writer().whole(choices_, usages_.value_or(std::vector<Usage>()))};
}

}  // namespace kvik
