#include "service/experiment/cache_experiment.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/mutex.h"

namespace kvik {
namespace {

uint64_t n_different_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return std::max(a.size(), b.size());
  if (std::memcmp(a.data(), b.data(), a.size_bytes()) == 0) return 0;
  uint64_t n = 0;
  for (size_t i = 0; i < a.size(); ++i) n += std::memcmp(&a[i], &b[i], sizeof(float)) != 0;
  return n;
}

}  // namespace

std::string_view name_of(CacheMode way) {
  switch (way) {
    case CacheMode::kCold:
      return "cold";
    case CacheMode::kNaive:
      return "naive";
    case CacheMode::kWarm:
      break;
  }
  return "warm";
}

std::optional<PowerFit> TracedRun::fit(size_t first) const {
  std::vector<double> x, y;
  for (size_t i = first; i < tokens.size(); ++i) {
    x.push_back(tokens[i].n_seen);
    y.push_back(tokens[i].ms);
  }
  return fit_power(x, y);
}

void TracedRun::merge(const TracedRun& repeat) {
  for (size_t i = 0; i < std::min(tokens.size(), repeat.tokens.size()); ++i) {
    if (repeat.tokens[i].ms >= tokens[i].ms) continue;
    tokens[i].ms = repeat.tokens[i].ms;
    tokens[i].n_other_sequences = repeat.tokens[i].n_other_sequences;
  }
  n_compared += repeat.n_compared;
  n_different += repeat.n_different;
}

// The sink of one run. The first run fills `logits`, and later runs compare theirs with them. All
// of this happens on the engine thread, and runs do not overlap.
class CacheExperiment::Recorder final : public CompletionSink {
 public:
  enum class Role : uint8_t { kReference, kCompared };
  Recorder(Role role, std::shared_ptr<std::vector<std::vector<float>>> logits)
      : role_(role), logits_(std::move(logits)) {}

  struct News {
    std::vector<TracedToken> tokens;
    std::optional<FinishReason> finish;
    Usage usage;  // set, like the following, when the run has ended
    uint64_t n_compared = 0, n_different = 0;
  };
  News take() {
    const MutexLock lock(mutex_);
    return std::exchange(news_, {});
  }

  void set_wake(std::function<void()> wake) {
    const MutexLock lock(mutex_);
    wake_ = std::move(wake);
    if (wake_ && (news_.finish || !news_.tokens.empty())) wake_();
  }

  void on_trace(const TokenTrace& trace) override {
    compare(trace.logits);
    const TimePoint before = n_tokens_ == 0 ? trace.began : last_;
    last_ = trace.at;
    ++n_tokens_;
    const MutexLock lock(mutex_);
    news_.tokens.push_back({.id = trace.id,
                            .ms = to_ms(trace.at - before),
                            .n_seen = trace.position + 1,
                            .kv_rows = trace.kv_rows,
                            .kv_bytes = trace.kv_bytes,
                            .n_other_sequences = trace.n_other_sequences});
    if (wake_) wake_();
  }

  void on_chunk(CompletionChunk chunk) override {
    if (chunk.finish) finish_ = *chunk.finish;
  }

  void on_done(const Usage& usage) override {
    const MutexLock lock(mutex_);
    news_.finish = finish_;
    news_.usage = usage;
    news_.n_compared = n_compared_;
    news_.n_different = n_different_;
    if (wake_) wake_();
  }

 private:
  void compare(std::span<const float> logits) {
    if (role_ == Role::kReference) {
      logits_->emplace_back(logits.begin(), logits.end());
      return;
    }
    n_compared_ += logits.size();
    n_different_ += n_tokens_ < logits_->size() ? n_different_bits(logits, (*logits_)[n_tokens_])
                                                : logits.size();
  }

  const Role role_;
  const std::shared_ptr<std::vector<std::vector<float>>> logits_;
  // Engine thread only.
  size_t n_tokens_ = 0;
  TimePoint last_;
  FinishReason finish_ = FinishReason::kLength;
  uint64_t n_compared_ = 0, n_different_ = 0;

  Mutex mutex_;
  News news_ GUARDED_BY(mutex_);
  std::function<void()> wake_ GUARDED_BY(mutex_);
};

CacheExperiment::CacheExperiment(ServiceApi& service, Options options)
    : service_(service),
      options_(std::move(options)),
      logits_(std::make_shared<std::vector<std::vector<float>>>()) {}

CacheExperiment::~CacheExperiment() {
  if (recorder_) recorder_->set_wake(nullptr);
}

Result<void> CacheExperiment::start() { return begin(kCacheModes[0]); }

Result<void> CacheExperiment::begin(CacheMode way) {
  CompletionRequest request;
  request.prompt = options_.prompt;
  request.max_tokens = options_.max_tokens;
  request.engine.sampling.temperature = 0;
  request.seed = 0;
  request.ignore_eos = true;  // all runs have the same length
  request.engine.cache = way == CacheMode::kNaive ? Request::Cache::kOff : Request::Cache::kUse;
  request.engine.cache_salt = options_.cache_salt;
  if (n_repeats_ > 1) request.engine.cache_salt += "-" + std::to_string(n_repeats_);
  request.model = options_.model;
  request.engine.tenant = options_.tenant;
  request.engine.priority = options_.priority;
  request.engine.trace = Request::Trace::kOn;
  request.engine.speculate = Request::Speculate::kOff;  // one step per token in all runs
  const bool is_first = way == CacheMode::kCold && n_repeats_ == 1;
  const auto recorder = std::make_shared<Recorder>(
      is_first ? Recorder::Role::kReference : Recorder::Role::kCompared, logits_);
  recorder->set_wake(wake_);
  TRY_ASSIGN(completion_, service_.complete(request, recorder));
  recorder_ = recorder;
  current_ = {.way = way, .tokens = {}, .usage = {}};
  if (n_repeats_ == 1) runs_.push_back(current_);
  return {};
}

bool CacheExperiment::has_time_to_repeat() const {
  const double mean_ms = spent_ms_ / n_repeats_;
  return n_repeats_ < options_.repeats && spent_ms_ + mean_ms <= options_.max_ms;
}

Result<bool> CacheExperiment::advance() {
  if (!recorder_) return true;
  Recorder::News news = recorder_->take();
  current_.tokens.insert(current_.tokens.end(), news.tokens.begin(), news.tokens.end());
  if (n_repeats_ == 1) runs_.back().tokens = current_.tokens;
  if (!news.finish) return false;
  if (*news.finish == FinishReason::kFailed) {
    return fail(ErrorCode::kCorrupt, "the model's logits are not finite numbers");
  }
  if (*news.finish == FinishReason::kCancelled) {
    return fail(ErrorCode::kUnavailable, "the generation was cut off: the server is stopping");
  }
  current_.usage = news.usage;
  current_.n_compared = news.n_compared;
  current_.n_different = news.n_different;
  for (const TracedToken& token : current_.tokens) spent_ms_ += token.ms;
  const auto number = static_cast<size_t>(current_.way);
  if (n_repeats_ == 1) {
    runs_.back() = current_;
  } else {
    runs_[number].merge(current_);
  }
  if (number + 1 < std::size(kCacheModes)) {
    TRY(begin(kCacheModes[number + 1]));
    return false;
  }
  if (has_time_to_repeat()) {
    ++n_repeats_;
    TRY(begin(kCacheModes[0]));
    return false;
  }
  recorder_->set_wake(nullptr);
  recorder_.reset();
  completion_.reset();
  return true;
}

void CacheExperiment::set_wake(std::function<void()> wake) {
  wake_ = std::move(wake);
  if (recorder_) recorder_->set_wake(wake_);
}

bool CacheExperiment::are_bits_equal() const {
  return std::ranges::all_of(runs_, [](const TracedRun& run) {
    return run.n_different == 0 && (run.way == CacheMode::kCold || run.n_compared > 0);
  });
}

}  // namespace kvik
