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
      inbox_(options.max_queue, options.n_tenants, clock) {}

EncoderThread::~EncoderThread() {
  inbox_.stop();
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
  return inbox_.submit(std::move(request), std::move(sink));
}

void EncoderThread::cancel(RequestId id) { inbox_.cancel(id); }

bool EncoderThread::drain(Duration at_most) { return inbox_.drain(at_most); }

EngineSnapshot EncoderThread::snapshot() const { return inbox_.snapshot(); }

uint64_t EncoderThread::probe_progress() { return inbox_.probe_progress(); }

void EncoderThread::main() {
  for (bool is_running = true; is_running;) {
    try {
      is_running = run_once();
    } catch (const std::bad_alloc&) {  // the requests of the next batch wait
      static log::RareWarning warn;
      warn("cannot begin a batch: out of memory");
    }
  }
}

// Handles messages and computes a batch. Returns false if the thread must stop.
bool EncoderThread::run_once() {
  if (!take_messages()) return false;
  if (!queue_.empty()) step();
  inbox_.publish(counters_, !queue_.empty());
  return true;
}

// Without memory for the queue, this request alone fails.
void EncoderThread::add(QueuedRequest queued) {
  const std::shared_ptr<EventSink> sink = queued.sink;
  try {
    queue_.add(std::move(queued));
  } catch (const std::bad_alloc&) {
    static log::RareWarning warn;
    warn("cannot queue a text: out of memory");
    sink->on_no_memory();
  }
}

// Waits for work and takes the messages. Returns false if the thread must stop.
bool EncoderThread::take_messages() {
  const bool continues =
      inbox_.take(messages_, queue_.empty() ? TimePoint::max() : TimePoint::min());
  for (QueuedRequest& queued : messages_.requests) add(std::move(queued));
  for (const RequestId id : messages_.cancels) {
    if (const auto queued = queue_.remove(id))
      finish(*queued, FinishReason::kCancelled, clock_.now());
  }
  if (!continues) {
    for (const QueuedRequest& queued : queue_.take_all())
      finish(queued, FinishReason::kCancelled, clock_.now());
  }
  counters_.n_waiting = queue_.n_jobs();
  return continues;
}

void EncoderThread::step() {
  Batch batch = queue_.take_batch(n_rows_, n_texts_);
  CHECK(!batch.empty());
  const TimePoint begin = clock_.now();
  uint32_t n_tokens = 0;
  for (QueuedRequest& job : batch) {
    job.place = {};
    n_tokens += static_cast<uint32_t>(job.request.prompt.size());
    counters_.histograms.queue_s.record(to_s(begin - job.submitted));
  }
  counters_.n_waiting = queue_.n_jobs();
  const auto n_texts = static_cast<uint32_t>(batch.size());
  inbox_.begin_step({.n_sequences = n_texts, .n_prefill_rows = n_tokens, .begin = begin}, n_texts,
                    counters_.n_waiting);
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
bool EncoderThread::compute(const Batch& batch) {
  std::vector<EncoderText> texts;
  std::vector<RequestId> ids;
  for (const QueuedRequest& job : batch) {
    ids.push_back(job.id);
    texts.push_back({.tokens = job.request.prompt,
                     .second_segment = job.request.second_segment.value_or(UINT32_MAX),
                     .wants_scores = job.request.wants == Request::Wants::kScores});
  }
  return encoder_->forward(texts, [&] { return inbox_.are_cancelled(ids); });
}

void EncoderThread::publish(const Batch& batch, TimePoint begin, bool is_done) {
  const size_t dim = model_->config().model_dim;
  size_t first_row = 0;
  for (; n_published_ < batch.size(); ++n_published_) {
    const QueuedRequest& job = batch[n_published_];
    const auto n = static_cast<uint32_t>(job.request.prompt.size());
    const bool is_wanted = is_done && !inbox_.are_cancelled({&job.id, 1});
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

void EncoderThread::finish(const QueuedRequest& queued, FinishReason reason, TimePoint begin) {
  ++counters_.finished[static_cast<size_t>(reason)];
  counters_.histograms.e2e_s.record(to_s(clock_.now() - queued.submitted));
  Usage usage;
  usage.prompt_tokens = static_cast<uint32_t>(queued.request.prompt.size());
  usage.queue_time = begin - queued.submitted;
  usage.ttft = clock_.now() - queued.submitted;
  try {
    queued.sink->on_finish(reason, usage);
  } catch (const std::bad_alloc&) {
    queued.sink->on_no_memory();
  }
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
  inbox_.publish(counters_, true);
}

}  // namespace kvik
