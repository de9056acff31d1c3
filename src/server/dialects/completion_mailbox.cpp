#include "server/dialects/completion_mailbox.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <ranges>
#include <utility>

namespace kvik {
namespace {

// Size of an event's envelope, which exceeds most texts.
constexpr size_t kEnvelopeBytes = 192;
// Number of chunks that wait unmerged, so that a reader that pauses for a moment misses no event.
constexpr size_t kSeparateChunks = 32;
// Chunks are merged up to this text size: a string of this capacity is grown by doubling without
// waste.
constexpr size_t kMergedTextBytes = 3840;

// Returns the approximate size of the chunk as an event.
size_t weight_bytes(const CompletionChunk& chunk) {
  constexpr size_t kLogprob = 64;
  constexpr size_t kLink = 19;  // its digits, quotes and a comma
  size_t bytes =
      kEnvelopeBytes + chunk.text.size() + 8 * chunk.token_ids.size() + kLink * chunk.links.size();
  for (const AnswerPart& part : chunk.parts) bytes += part.text.size();
  for (const ChunkLogprob& logprob : chunk.logprobs)
    bytes += kLogprob * (1 + logprob.top.size()) + logprob.token.size();
  return bytes;
}

// Returns its memory while an answer is assembled: text is also held in parts.
size_t held_bytes(const CompletionChunk& chunk) {
  constexpr size_t kHeap = 16;  // overhead of an allocation
  constexpr size_t kLink = 64;  // it becomes a JSON value
  size_t bytes =
      2 * chunk.text.size() + sizeof(TokenId) * chunk.token_ids.size() + kLink * chunk.links.size();
  for (const ChunkLogprob& logprob : chunk.logprobs) {
    bytes += sizeof logprob + kHeap + logprob.top.size() * sizeof(logprob.top[0]);
  }
  for (const auto& place : chunk.prompt_logprobs) {
    bytes += sizeof place + kHeap + place.size() * sizeof(PromptLogprob);
  }
  return bytes;
}

void append_chunk(CompletionChunk& to, CompletionChunk& from) {
  to.text += from.text;
  for (AnswerPart& part : from.parts) append(to.parts, std::move(part));
  to.token_ids.insert(to.token_ids.end(), from.token_ids.begin(), from.token_ids.end());
  to.links.insert(to.links.end(), from.links.begin(), from.links.end());
  std::ranges::move(from.logprobs, std::back_inserter(to.logprobs));
  to.finish = from.finish;
  to.stop_string = std::move(from.stop_string);
  to.ended_itself = from.ended_itself;
  to.end_link = from.end_link;
}

}  // namespace

void CompletionMailbox::add(CompletionChunk chunk) {
  const MutexLock lock(mutex_);
  if (is_closed_ || has_overflowed_) return;
  held_bytes_ += held_bytes(chunk);
  if (!merge(chunk)) {
    if (!chunks_.empty()) waiting_bytes_ += weight_bytes(chunk);
    chunks_.push_back(std::move(chunk));
  }
  if (!is_within_bounds()) {
    drop_all();
  }
  signal();
}

void CompletionMailbox::drop_all() {
  has_overflowed_ = true;
  chunks_.clear();
  held_bytes_ = taken_bytes_;
  has_signalled_ = false;  // this wake must not be merged with one that a stuck writer ignores
}

void CompletionMailbox::overflow() {
  const MutexLock lock(mutex_);
  if (is_closed_) return;
  drop_all();
  signal();
}

bool CompletionMailbox::is_within_bounds() {
  if (limit_bytes_ && waiting_bytes_ > *limit_bytes_) return false;
  return share_.resize(held_bytes_);
}

// Appends to the newest chunk of the same choice if that loses no significant event.
bool CompletionMailbox::merge(CompletionChunk& chunk) {
  if (!limit_bytes_ || chunks_.size() < kSeparateChunks) return false;
  for (CompletionChunk& last : chunks_ | std::views::drop(1) | std::views::reverse) {
    if (last.choice != chunk.choice) continue;
    if (last.text.size() + chunk.text.size() > kMergedTextBytes) return false;
    waiting_bytes_ += weight_bytes(chunk) - kEnvelopeBytes;
    append_chunk(last, chunk);
    return true;
  }
  return false;
}

void CompletionMailbox::add_usage(size_t completion, const Usage& usage) {
  const MutexLock lock(mutex_);
  if (is_closed_ || n_running_ == 0) return;
  --n_running_;
  usages_.at(completion) = usage;
  signal();
}

void CompletionMailbox::set_prompt(const PromptProgress& prompt) {
  const MutexLock lock(mutex_);
  prompt_ = prompt;
}

PromptProgress CompletionMailbox::prompt() const {
  const MutexLock lock(mutex_);
  return prompt_;
}

std::optional<CompletionChunk> CompletionMailbox::take() {
  const MutexLock lock(mutex_);
  has_signalled_ = false;
  if (chunks_.empty()) return std::nullopt;
  std::optional<CompletionChunk> oldest = std::move(chunks_.front());
  chunks_.pop_front();
  if (!chunks_.empty()) waiting_bytes_ -= weight_bytes(chunks_.front());
  if (limit_bytes_) {
    held_bytes_ -= std::exchange(taken_bytes_, held_bytes(*oldest));
    static_cast<void>(share_.resize(held_bytes_));
  }
  return oldest;
}

std::optional<std::vector<Usage>> CompletionMailbox::take_usages() {
  const MutexLock lock(mutex_);
  if (n_running_ > 0 || !chunks_.empty() || has_overflowed_) return std::nullopt;
  return usages_;
}

bool CompletionMailbox::has_overflowed() const {
  const MutexLock lock(mutex_);
  return has_overflowed_;
}

void CompletionMailbox::set_wake(std::function<void()> wake) {
  const MutexLock lock(mutex_);
  wake_ = std::move(wake);
  has_signalled_ = false;
  if (!chunks_.empty() || has_overflowed_ || n_running_ == 0) signal();
}

void CompletionMailbox::close() {
  const MutexLock lock(mutex_);
  is_closed_ = true;
  wake_ = nullptr;
  chunks_.clear();
  share_.release();
}

ByteShare CompletionMailbox::take_share() {
  const MutexLock lock(mutex_);
  return std::move(share_);
}

void CompletionMailbox::signal() {
  if (has_signalled_ || !wake_) return;
  has_signalled_ = true;
  wake_();
}

void MailboxSink::on_prompt(const PromptProgress& progress) {
  if (completion_ == 0 && progress.n_done == progress.n_all) mailbox_->set_prompt(progress);
}

void MailboxSink::on_chunk(CompletionChunk chunk) {
  chunk.choice += first_choice_;
  try {
    mailbox_->add(std::move(chunk));
  } catch (const std::bad_alloc&) {  // this answer is then incomplete; others are not affected
    mailbox_->overflow();
  }
}

}  // namespace kvik
