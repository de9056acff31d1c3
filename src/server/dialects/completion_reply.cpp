#include "server/dialects/completion_reply.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/http/status.h"
#include "service/structured_output/grammar_limits.h"

namespace kvik {
namespace {

// An echoed prompt is one chunk; written as one event, it would delay all other streams.
constexpr size_t kLogprobsOfEvent = 32;

bool says_something(const CompletionChunk& chunk) {
  return !chunk.text.empty() || !chunk.token_ids.empty() || !chunk.logprobs.empty() ||
         chunk.finish.has_value();
}

}  // namespace

std::optional<Error> CompletionReply::error_of(std::optional<FinishReason> finish) const {
  if (finish == FinishReason::kFailed)
    return Error{ErrorCode::kIo,
                 "the engine could not finish this completion: the logits are not finite, banned "
                 "tokens leave none to sample, or there is no memory"};
  if (finish == FinishReason::kCancelled)
    return Error{ErrorCode::kUnavailable, "this completion was cut off: the server is stopping"};
  if (finish == FinishReason::kExhausted) return exhausted_error(running_.form_param);
  return std::nullopt;
}

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

namespace {

// Adds a header that lists names, if there are any.
void add_names(HttpResponse& response, const char* header, const std::vector<std::string>& names) {
  constexpr size_t kMaxNamed = 16;
  if (names.empty()) return;
  std::string list;
  for (size_t i = 0; i < std::min(kMaxNamed, names.size()); ++i) {
    if (i > 0) list += ", ";
    list += printable(names[i]);
  }
  if (names.size() > kMaxNamed) list += fmt::format(", and {} more", names.size() - kMaxNamed);
  response.headers.emplace_back(header, std::move(list));
}

}  // namespace

HttpResponse CompletionReply::with_headers(HttpResponse response) const {
  add_names(response, "X-Kvik-Relaxed", running_.relaxed);
  add_names(response, "X-Kvik-Left-Out", running_.left_out);
  return response;
}

std::optional<CompletionChunk> CompletionReply::take() {
  auto chunk = mailbox().take();
  if (!chunk) return chunk;
  if (!first_token_at_) first_token_at_ = std::chrono::steady_clock::now();
  if (running_.collects_ids && chunk->choice == 0)
    ids_.insert(ids_.end(), chunk->token_ids.begin(), chunk->token_ids.end());
  if (running_.hides_ids) chunk->token_ids.clear();
  return chunk;
}

void CompletionReply::note_usages() {
  if (usages_ && running_.on_usages) running_.on_usages(*usages_, ids_);
}

// One event per call: some clients treat the data of one read as one event.
PendingReply::State StreamedCompletion::advance(std::string& out) {
  while (events_.empty() && !has_ended_)
    if (!take_output()) return State::kRunning;
  if (!events_.empty()) {
    out += events_.front();
    events_.pop_front();
  }
  return has_ended_ && events_.empty() ? State::kDone : State::kRunning;
}

// Returns the first log probabilities and everything else but the finish reason; the rest remains
// in `chunk`.
CompletionChunk StreamedCompletion::cut(CompletionChunk& chunk) {
  auto& all = chunk.logprobs;
  const auto first = all.begin() + static_cast<ptrdiff_t>(n_cut_);
  n_cut_ = std::min(n_cut_ + kLogprobsOfEvent, all.size());
  const auto last = all.begin() + static_cast<ptrdiff_t>(n_cut_);
  CompletionChunk event;
  event.choice = chunk.choice;
  event.text = std::exchange(chunk.text, {});
  event.parts = std::exchange(chunk.parts, {});
  event.token_ids = std::exchange(chunk.token_ids, {});
  event.links = std::exchange(chunk.links, {});
  event.logprobs.assign(std::move_iterator(first), std::move_iterator(last));
  if (n_cut_ < all.size()) return event;
  event.finish = chunk.finish;
  event.stop_string = std::move(chunk.stop_string);
  event.ended_itself = chunk.ended_itself;
  event.end_link = chunk.end_link;
  return event;
}

// Returns false if there is none.
bool StreamedCompletion::take_output() {
  if (!chunk_) {
    chunk_ = take();
    n_cut_ = 0;
    if (chunk_ && holds_calls()) {
      chunk_->parts =
          calls_[chunk_->choice].take(std::move(chunk_->parts), chunk_->finish.has_value());
    }
  }
  if (chunk_) {
    if (const auto error = error_of(chunk_->finish)) {
      events_.push_back(final_error_event(*error));
      has_ended_ = true;
    } else if (says_something(*chunk_)) {
      if (!std::exchange(has_begun_, true)) writer().begin(mailbox().prompt(), events_);
      writer().chunk(cut(*chunk_), events_);
    }
    if (n_cut_ == chunk_->logprobs.size() || has_ended_) chunk_.reset();
    return true;
  }
  usages_ = mailbox().take_usages();
  if (!usages_) return false;
  note_usages();
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
  has_memory_ = !mailbox().has_overflowed();
  if (!error_ && has_memory_) note_usages();
  return usages_ || error_ || !has_memory_ ? State::kDone : State::kRunning;
}

HttpResponse WholeCompletion::response() {
  if (error_) return error_response(*error_);
  if (!has_memory_) return error_response(no_memory());
  ByteShare share = mailbox().take_share();
  const size_t weight_bytes = 2 * share.n_bytes() + attested_bytes();
  auto body = std::make_unique<JsonBody>(weight_bytes, std::move(share));
  WholeAnswer answer{.choices = std::move(choices_),
                     .usages = usages_.value_or(std::vector<Usage>())};
  writer().whole(std::make_shared<const WholeAnswer>(std::move(answer)), *body);
  return with_headers({.status = 200, .body = "", .source = std::move(body)});
}

}  // namespace kvik
