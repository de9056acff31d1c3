#include "engine/encode/encoder_thread.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/process/thread.h"
#include "base/rare_warning.h"
#include "model/encode/encoder.h"
#include "model/model.h"

namespace kvik {
namespace {

uint32_t context_of(const EncoderOptions& options, uint32_t n_ctx_train) {
  return options.n_ctx_max ? std::min(options.n_ctx_max, n_ctx_train) : n_ctx_train;
}

}  // namespace

uint32_t EncoderThread::n_rows(const EncoderOptions& options, uint32_t n_ctx_train) {
  return std::max(options.max_step_tokens, context_of(options, n_ctx_train));
}

Result<std::unique_ptr<EncoderThread>> EncoderThread::start(std::unique_ptr<Model> model,
                                                            Backend& backend,
                                                            const EncoderOptions& options,
                                                            const Clock& clock) {
  if (options.max_step_tokens == 0 || options.max_running == 0) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("max_step_tokens is {} and max_running is {}, expected at least 1 each",
                            options.max_step_tokens, options.max_running));
  }
  if (!backend.can_encode()) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{} does not compute encoders such as '{}': use --device cpu",
                            backend.name(), model->config().architecture));
  }
  std::unique_ptr<EncoderThread> encoder(
      new EncoderThread(std::move(model), backend, options, clock));
  TRY_ASSIGN(encoder->thread_, start_thread("kvik-engine", [&own = *encoder] { own.main(); }));
  return encoder;
}

EncoderThread::EncoderThread(std::unique_ptr<Model> model, Backend& backend,
                             const EncoderOptions& options, const Clock& clock)
    : model_(std::move(model)),
      clock_(clock),
      limits_{.n_ctx_max = context_of(options, model_->config().n_ctx_train),
              .n_vocab = model_->config().n_vocab,
              .max_queue = options.max_queue,
              .n_tenants = options.n_tenants},
      n_rows_(n_rows(options, model_->config().n_ctx_train)),
      n_texts_(options.max_running),
      encoder_(std::make_unique<Encoder>(*model_, backend,
                                         Encoder::Limits{.n_rows = n_rows_, .n_texts = n_texts_})),
      queue_limit_(options.max_queue, options.n_tenants) {}

EncoderThread::~EncoderThread() {
  {
    const MutexLock lock(mutex_);
    stopping_ = draining_ = true;
    has_cancels_ = true;
  }
  wake_.notify_one();
  join_if_started(thread_);
}

Result<void> EncoderThread::check(const Request& request) const {
  CHECK(request.wants != Request::Wants::kAnswer);
  if (request.prompt.empty()) {
    return fail(ErrorCode::kInvalidArgument, "the text has no tokens, expected at least one",
                "prompt");
  }
  for (const TokenId id : request.prompt) {
    if (id < limits_.n_vocab) continue;
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the text holds token {}, expected ids below {}", id, limits_.n_vocab),
                "prompt");
  }
  if (request.prompt.size() <= limits_.n_ctx_max) return {};
  return fail(ErrorCode::kContextLength,
              fmt::format("This model's maximum context length is {} tokens. However, a text has "
                          "{} tokens. Please shorten it, or set \"truncate\" to true.",
                          limits_.n_ctx_max, request.prompt.size()),
              "prompt");
}

Result<RequestId> EncoderThread::submit(Request request, std::shared_ptr<EventSink> sink) {
  TRY(check(request));
  RequestId id{};
  {
    const MutexLock lock(mutex_);
    if (draining_) return fail(ErrorCode::kUnavailable, "the server is shutting down");
    TRY_ASSIGN(QueuePlace place, queue_limit_.enter(request.tenant));
    id = RequestId{next_id_++};
    inbox_.push_back({id, std::move(request), std::move(sink), std::move(place), clock_.now()});
    is_idle_ = false;
  }
  wake_.notify_one();
  return id;
}

void EncoderThread::cancel(RequestId id) {
  {
    const MutexLock lock(mutex_);
    cancels_.push_back(id);
    has_cancels_ = true;
  }
  wake_.notify_one();
}

bool EncoderThread::drain(Duration at_most) {
  const MutexLock lock(mutex_);
  draining_ = true;
  return idle_.wait_for(mutex_, at_most, [this]() REQUIRES(mutex_) { return is_idle_; });
}

EngineSnapshot EncoderThread::snapshot() const {
  const MutexLock lock(mutex_);
  EngineSnapshot snapshot = snapshot_;
  if (snapshot.running_step.n_sequences > 0) {
    snapshot.running_step_s = to_s(clock_.now() - snapshot.running_step.begin);
  }
  snapshot.n_waiting += static_cast<uint32_t>(inbox_.size());
  return snapshot;
}

uint64_t EncoderThread::probe_progress() {
  const uint64_t n_signs = n_signs_.load(std::memory_order_relaxed);
  {
    const MutexLock lock(mutex_);
    is_woken_ = true;
  }
  wake_.notify_one();
  return n_signs;
}

void EncoderThread::main() {
  while (take_messages()) {
    if (!queue_.empty()) step();
    const MutexLock lock(mutex_);
    snapshot_ = counters_;
    is_idle_ = queue_.empty() && inbox_.empty();
    if (is_idle_) idle_.notify_all();
  }
}

// Without memory for the queue, this request alone fails.
void EncoderThread::add(EncodeJob job) {
  const std::shared_ptr<EventSink> sink = job.sink;
  try {
    queue_.add(std::move(job));
  } catch (const std::bad_alloc&) {
    static log::RareWarning warn;
    warn("cannot queue a text: out of memory");
    sink->on_no_memory();
  }
}

// Waits for work and takes the messages. Returns false if the thread must stop.
bool EncoderThread::take_messages() {
  std::vector<EncodeJob> taken;
  std::vector<RequestId> cancels;
  bool stop = false;
  n_signs_.fetch_add(1, std::memory_order_relaxed);
  {
    const MutexLock lock(mutex_);
    wake_.wait(mutex_, [this]() REQUIRES(mutex_) {
      return is_woken_ || !inbox_.empty() || !cancels_.empty() || stopping_ || !is_idle_;
    });
    is_woken_ = false;
    std::swap(taken, inbox_);
    std::swap(cancels, cancels_);
    has_cancels_ = stopping_;
    stop = stopping_;
  }
  for (EncodeJob& job : taken) add(std::move(job));
  for (const RequestId id : cancels) {
    if (const auto job = queue_.remove(id)) finish(*job, FinishReason::kCancelled, clock_.now());
  }
  if (stop) {
    for (const EncodeJob& job : queue_.take_all()) {
      finish(job, FinishReason::kCancelled, clock_.now());
    }
  }
  counters_.n_waiting = queue_.n_jobs();
  return !stop;
}

void EncoderThread::step() {
  std::vector<EncodeJob> batch = queue_.take_batch(n_rows_, n_texts_);
  CHECK(!batch.empty());
  const TimePoint begin = clock_.now();
  uint32_t n_tokens = 0;
  for (EncodeJob& job : batch) {
    job.place = {};
    n_tokens += static_cast<uint32_t>(job.request.prompt.size());
    counters_.histograms.queue_s.record(to_s(begin - job.submitted));
  }
  counters_.n_waiting = queue_.n_jobs();
  cancelled_.clear();
  {
    const MutexLock lock(mutex_);
    snapshot_ = counters_;
    snapshot_.n_running = static_cast<uint32_t>(batch.size());
    snapshot_.running_step = {
        .n_sequences = snapshot_.n_running, .n_prefill_rows = n_tokens, .begin = begin};
  }
  n_published_ = 0;
  try {
    const bool is_done = compute(batch);
    if (is_done) record(batch.size(), n_tokens, begin);
    publish(batch, begin, is_done);
  } catch (const std::bad_alloc&) {
    static log::RareWarning warn;
    warn("cannot compute a batch: out of memory; its requests fail");
    while (n_published_ < batch.size()) batch[n_published_++].sink->on_no_memory();
  }
}

// Returns false if the batch was interrupted, because all of its requests were canceled.
bool EncoderThread::compute(const std::vector<EncodeJob>& batch) {
  std::vector<EncoderText> texts;
  for (const EncodeJob& job : batch) {
    texts.push_back({.tokens = job.request.prompt,
                     .second_segment = job.request.second_segment.value_or(UINT32_MAX),
                     .wants_scores = job.request.wants == Request::Wants::kScores});
  }
  return encoder_->forward(texts, [&] { return are_cancelled(batch); });
}

bool EncoderThread::are_cancelled(const std::vector<EncodeJob>& batch) {
  n_signs_.fetch_add(1, std::memory_order_relaxed);
  if (!has_cancels_.load(std::memory_order_relaxed)) return false;
  const MutexLock lock(mutex_);
  if (stopping_) return true;
  cancelled_ = cancels_;
  return std::ranges::all_of(batch, [this](const EncodeJob& job) {
    return std::ranges::find(cancelled_, job.id) != cancelled_.end();
  });
}

void EncoderThread::publish(const std::vector<EncodeJob>& batch, TimePoint begin, bool is_done) {
  const size_t dim = model_->config().model_dim;
  size_t first_row = 0;
  for (; n_published_ < batch.size(); ++n_published_) {
    const EncodeJob& job = batch[n_published_];
    const auto n = static_cast<uint32_t>(job.request.prompt.size());
    const bool is_wanted = is_done && std::ranges::find(cancelled_, job.id) == cancelled_.end();
    if (is_wanted && job.request.wants == Request::Wants::kScores) {
      job.sink->on_scores(encoder_->scores(n_published_));
    } else if (is_wanted) {
      for (uint32_t token = 0; token < n; ++token) {
        job.sink->on_hidden(token, encoder_->states().subspan((first_row + token) * dim, dim));
      }
    }
    first_row += n;
    finish(job, is_wanted ? FinishReason::kStop : FinishReason::kCancelled, begin);
  }
}

void EncoderThread::finish(const EncodeJob& job, FinishReason reason, TimePoint begin) {
  ++counters_.finished[static_cast<size_t>(reason)];
  counters_.histograms.e2e_s.record(to_s(clock_.now() - job.submitted));
  Usage usage;
  usage.prompt_tokens = static_cast<uint32_t>(job.request.prompt.size());
  usage.queue_time = begin - job.submitted;
  usage.ttft = clock_.now() - job.submitted;
  job.sink->on_finish(reason, usage);
}

void EncoderThread::record(size_t n_texts, uint32_t n_tokens, TimePoint begin) {
  const double seconds = to_s(clock_.now() - begin);
  ++counters_.steps;
  counters_.prompt_tokens += n_tokens;
  counters_.last_step_ms = seconds * 1e3;
  counters_.last_step = {.n_sequences = static_cast<uint32_t>(n_texts),
                         .n_prefill_rows = n_tokens,
                         .ms = counters_.last_step_ms};
  counters_.histograms.step_s.record(seconds);
  counters_.histograms.batch_sequences.record(static_cast<double>(n_texts));
  counters_.histograms.batch_rows.record(n_tokens);
  counters_.queue_wait_s = seconds * static_cast<double>(queue_.n_tokens()) / n_tokens;
  // Before the requests get their results, so that a client sees its own tokens counted.
  const MutexLock lock(mutex_);
  snapshot_ = counters_;
}

}  // namespace kvik
