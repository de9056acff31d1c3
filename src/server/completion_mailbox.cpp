#include "server/completion_mailbox.h"

#include <utility>

namespace kvik {
namespace {

// What the chunk will be as an event, roughly: the envelope weighs more than most texts.
size_t weight_bytes(const CompletionChunk& chunk) {
  constexpr size_t kEnvelope = 192;
  constexpr size_t kLogprob = 64;
  size_t bytes = kEnvelope + chunk.text.size() + 8 * chunk.token_ids.size();
  for (const ChunkLogprob& logprob : chunk.logprobs)
    bytes += kLogprob * (1 + logprob.top.size()) + logprob.token.size();
  return bytes;
}

}  // namespace

void CompletionMailbox::add(CompletionChunk chunk) {
  const size_t bytes = weight_bytes(chunk);
  const std::scoped_lock lock(mutex_);
  if (is_closed_ || has_overflowed_) return;
  if (!chunks_.empty()) waiting_bytes_ += bytes;
  if (limit_bytes_ && waiting_bytes_ > *limit_bytes_) {
    has_overflowed_ = true;
    chunks_.clear();
    has_signalled_ = false;  // this wake may not be merged with one that a stuck writer ignores
  } else {
    chunks_.push_back(std::move(chunk));
  }
  signal();
}

void CompletionMailbox::add_usage(const Usage& usage) {
  const std::scoped_lock lock(mutex_);
  if (is_closed_ || n_running_ == 0) return;
  --n_running_;
  usage_.prompt_tokens += usage.prompt_tokens;
  usage_.completion_tokens += usage.completion_tokens;
  usage_.cached_tokens += usage.cached_tokens;
  signal();
}

CompletionMailbox::Mail CompletionMailbox::take() {
  const std::scoped_lock lock(mutex_);
  has_signalled_ = false;
  waiting_bytes_ = 0;
  Mail mail;
  mail.chunks = std::exchange(chunks_, {});
  if (n_running_ == 0) mail.usage = usage_;
  return mail;
}

bool CompletionMailbox::has_overflowed() const {
  const std::scoped_lock lock(mutex_);
  return has_overflowed_;
}

void CompletionMailbox::set_wake(std::function<void()> wake) {
  const std::scoped_lock lock(mutex_);
  wake_ = std::move(wake);
  has_signalled_ = false;
  if (!chunks_.empty() || has_overflowed_ || n_running_ == 0) signal();
}

void CompletionMailbox::close() {
  const std::scoped_lock lock(mutex_);
  is_closed_ = true;
  wake_ = nullptr;
  chunks_.clear();
}

void CompletionMailbox::signal() {
  if (has_signalled_ || !wake_) return;
  has_signalled_ = true;
  wake_();
}

void MailboxSink::on_chunk(const CompletionChunk& chunk) {
  CompletionChunk copy = chunk;
  copy.choice += first_choice_;
  mailbox_->add(std::move(copy));
}

}  // namespace kvik
