#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "host/instance.h"
#include "support/tiny_engine.h"

namespace kvik {

// Records the events of one completion. Any thread may read them and wait for them.
class RecordingCompletionSink final : public CompletionSink {
 public:
  // Called with each chunk on the engine thread, without a lock held. It may block the engine.
  using OnChunk = std::function<void(const CompletionChunk&)>;
  explicit RecordingCompletionSink(OnChunk on_chunk = nullptr) : on_chunk_(std::move(on_chunk)) {}

  void on_chunk(CompletionChunk chunk) override {
    {
      const std::scoped_lock lock(mutex_);
      is_in_order_ = is_in_order_ && usages_.empty();
      chunks_.push_back(chunk);
    }
    if (on_chunk_) on_chunk_(chunk);
  }
  void on_done(const Usage& usage) override {
    const std::scoped_lock lock(mutex_);
    usages_.push_back(usage);
    changed_.notify_all();
  }

  // Waits for the end of the completion. Returns false on timeout.
  bool wait_until_done() const {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    // Slow masks are computed at low priority, which takes minutes under a sanitizer while other
    // tests run.
    constexpr std::chrono::seconds kTimeout = 10 * kTestTimeout;
#else
    constexpr std::chrono::seconds kTimeout = kTestTimeout;
#endif
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kTimeout, [this] { return !usages_.empty(); });
  }

  std::vector<CompletionChunk> chunks() const { return locked(chunks_); }
  std::vector<Usage> usages() const { return locked(usages_); }
  // Returns whether no chunk followed the end.
  bool is_in_order() const { return locked(is_in_order_); }

 private:
  template <class T>
  T locked(const T& value) const {
    const std::scoped_lock lock(mutex_);
    return value;
  }

  const OnChunk on_chunk_;
  mutable std::mutex mutex_;  // guards all members below
  mutable std::condition_variable changed_;
  std::vector<CompletionChunk> chunks_;
  std::vector<Usage> usages_;
  bool is_in_order_ = true;
};

// One choice of a finished completion, concatenated from its chunks.
struct Choice {
  std::string text;
  std::vector<TokenId> token_ids;
  std::vector<ChunkLogprob> logprobs;
  std::vector<std::vector<PromptLogprob>> prompt_logprobs;
  std::vector<FinishReason> finishes;
  std::optional<std::string> stop_string;
};

struct Answered {
  std::vector<Choice> choices;
  Usage usage;
  uint32_t prompt_tokens = 0;  // as reported by the completion handle
};

// A service with a tiny model, its own engine thread and the toy vocabulary: <unk>, <s>, </s>,
// <pad>, then one token per byte.
class ServiceRig {
 public:
  explicit ServiceRig(const TinyEngineOptions& options = {}) {
    const auto source = make_synthetic("synthetic:" + options.model.name);
    CHECK(source.has_value());
    auto tokenizer = Tokenizer::from_metadata((*source)->metadata());
    CHECK(tokenizer.has_value());
    TinyModel tiny = load_tiny(**source, options.model.n_threads);
    const EngineOptions engine = engine_options(options, tiny);
    auto instance = Instance::create({.backend = std::move(tiny.backend),
                                      .tokenizer = std::move(*tokenizer),
                                      .model = std::move(tiny.model),
                                      .draft = nullptr,
                                      .adapter = nullptr,
                                      .id = "tiny",
                                      .spec = "synthetic:" + options.model.name,
                                      .kv_type = options.kv_type,
                                      .n_ctx = options.n_ctx_max},
                                     engine);
    CHECK(instance.has_value());
    instance_ = std::move(*instance);
  }

  Service& service() { return instance_->service(); }
  const Tokenizer& tokenizer() const { return instance_->tokenizer(); }
  EngineThread& thread() { return instance_->engine(); }
  // Stops admitting requests and waits for the running ones. Returns false on timeout.
  bool drain() { return thread().drain(kTestTimeout); }

  // Completes a request and waits for its end. The request must not be rejected.
  Answered answer(const CompletionRequest& request) {
    const auto sink = std::make_shared<RecordingCompletionSink>();
    const auto completion = service().complete(request, sink);
    CHECK(completion.has_value());
    CHECK(sink->wait_until_done());
    CHECK(sink->is_in_order());
    Answered answered{std::vector<Choice>(request.n), sink->usages()[0],
                      (*completion)->prompt_tokens()};
    for (const CompletionChunk& chunk : sink->chunks()) {
      Choice& choice = answered.choices.at(chunk.choice);
      CHECK(choice.finishes.empty());
      choice.text += chunk.text;
      choice.token_ids.insert(choice.token_ids.end(), chunk.token_ids.begin(),
                              chunk.token_ids.end());
      choice.logprobs.insert(choice.logprobs.end(), chunk.logprobs.begin(), chunk.logprobs.end());
      choice.prompt_logprobs.insert(choice.prompt_logprobs.end(), chunk.prompt_logprobs.begin(),
                                    chunk.prompt_logprobs.end());
      if (chunk.finish) choice.finishes.push_back(*chunk.finish);
      if (chunk.stop_string) choice.stop_string = chunk.stop_string;
    }
    return answered;
  }

  // Returns the error of a request that must be rejected. Its sink must not receive an end.
  Error error_of(const CompletionRequest& request) {
    const auto sink = std::make_shared<RecordingCompletionSink>();
    const auto completion = service().complete(request, sink);
    CHECK(!completion.has_value());
    CHECK(sink->usages().empty());
    return completion.error();
  }

 private:
  std::unique_ptr<Instance> instance_;
};

// Returns the toy vocabulary's token for a byte.
inline TokenId byte_token(char byte) { return 4 + static_cast<uint8_t>(byte); }

// Returns logit biases that allow only these bytes.
inline std::vector<std::pair<TokenId, float>> only_bytes(const std::string& bytes) {
  std::vector<std::pair<TokenId, float>> bias;
  for (const char byte : bytes) bias.emplace_back(byte_token(byte), 100.0f);
  return bias;
}

// Returns a request that generates random letters from a seed, as texts to search in.
inline CompletionRequest letters_request(uint64_t max_tokens, uint64_t seed = 1) {
  CompletionRequest request;
  request.prompt = "Once upon a time";
  request.max_tokens = max_tokens;
  request.seed = seed;
  request.engine.sampling.logit_bias = only_bytes("abcdefghijklmnopqrstuvwxyz");
  return request;
}

}  // namespace kvik
