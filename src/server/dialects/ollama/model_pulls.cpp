#include "server/dialects/ollama/model_pulls.h"

#include <fmt/format.h>

#include <new>
#include <utility>

namespace kvik {
namespace {

// Reports that wait for the reader; more replace the newest.
constexpr size_t kMaxWaiting = 64;

}  // namespace

bool PullMailbox::put(const PullProgress& progress) {
  const MutexLock lock(mutex_);
  if (is_closed_) return false;
  const bool is_same_file = !waiting_.empty() && waiting_.back().status == progress.status &&
                            waiting_.back().digest == progress.digest;
  if (is_same_file || waiting_.size() >= kMaxWaiting)
    waiting_.back() = progress;
  else
    waiting_.push_back(progress);
  if (wake_) wake_();
  return true;
}

void PullMailbox::end(Result<StoredModel> result) {
  const MutexLock lock(mutex_);
  result_ = std::move(result);
  if (wake_) wake_();
}

PullMailbox::News PullMailbox::take() {
  const MutexLock lock(mutex_);
  News news;
  if (!waiting_.empty()) {
    news.progress = std::move(waiting_.front());
    waiting_.pop_front();
    return news;
  }
  news.has_ended = result_.has_value();
  if (result_ && !*result_) news.error = result_->error();
  return news;
}

void PullMailbox::set_wake(std::function<void()> wake) {
  const MutexLock lock(mutex_);
  wake_ = std::move(wake);
  if (wake_ && (!waiting_.empty() || result_)) wake_();
}

void PullMailbox::close() {
  const MutexLock lock(mutex_);
  is_closed_ = true;
  wake_ = nullptr;
  waiting_.clear();
}

Result<void> ModelPulls::start() {
  return threads_.start("kvik-pull", kMost, Offload::Priority::kLow);
}

Result<std::shared_ptr<PullMailbox>> ModelPulls::pull(ModelLibrary& library,
                                                      const std::string& name) {
  auto slot = std::make_unique<Slot>(n_running_);
  if (slot->index() >= kMost) {
    return fail(ErrorCode::kExhausted,
                fmt::format("{} models are being downloaded; try again when one is done", kMost));
  }
  auto mailbox = std::make_shared<PullMailbox>();
  threads_.post([this, mailbox, &library, name, slot = std::move(slot)]() mutable {
    auto result = pulled(library, name, *mailbox);
    slot.reset();  // the client may start another download as soon as it knows the result
    mailbox->end(std::move(result));
  });
  return mailbox;
}

Result<StoredModel> ModelPulls::pulled(ModelLibrary& library, const std::string& name,
                                       PullMailbox& mailbox) const {
  try {
    return library.pull(name, [&](const PullProgress& progress) {
      return !is_stopping_.load() && mailbox.put(progress);
    });
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kExhausted, "there is no memory for this download now");
  }
}

void ModelPulls::stop() {
  is_stopping_.store(true);
  threads_.join();
}

}  // namespace kvik
