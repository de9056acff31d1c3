#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "service/service_api.h"
#include "service/template_values.h"

namespace kvik {

constexpr std::chrono::seconds kTestTimeout{20};  // timeout for immediate events

// A completion that the server has requested. The test acts as the engine.
class FakeCall {
 public:
  FakeCall(CompletionRequest request, std::shared_ptr<CompletionSink> sink)
      : request(std::move(request)), sink_(std::move(sink)) {}

  void send(std::string text, uint32_t choice = 0) {
    CompletionChunk chunk;
    chunk.choice = choice;
    chunk.text = std::move(text);
    send(std::move(chunk));
  }
  // Splits the text into answer parts if the request asks for them, as the service does.
  void send(CompletionChunk chunk) {
    if (request.output.answer_begin) {
      AnswerSplitter& splitter =
          splitters_
              .try_emplace(chunk.choice, *request.output.answer_begin, request.output.answer_syntax)
              .first->second;
      chunk.parts = chunk.finish ? splitter.push_last(chunk.text) : splitter.push(chunk.text);
    }
    sink_->on_chunk(chunk);
  }
  void trace(const TokenTrace& token) { sink_->on_trace(token); }

  // Reports that the prompt is computed: 3 tokens, 1 of them cached.
  void begin() { sink_->on_prompt({.n_done = 3, .n_all = 3, .n_cached = 1}); }

  void finish(FinishReason reason = FinishReason::kStop, uint32_t choice = 0) {
    CompletionChunk chunk;
    chunk.choice = choice;
    chunk.finish = reason;
    send(std::move(chunk));
  }

  void done(const Usage& usage = FakeCall::usage()) { sink_->on_done(usage); }
  // Ends a canceled completion.
  void abandon() { sink_->on_abandoned(usage()); }

  static Usage usage() {
    Usage usage;
    usage.prompt_tokens = 3;
    usage.completion_tokens = 2;
    usage.cached_tokens = 1;
    usage.cache = {.ram_tokens = 1,
                   .tier_tokens = 0,
                   .miss = MissReason::kDiverged,
                   .position = 1,
                   .expected = 7,
                   .got = 8};
    return usage;
  }

  void cancel() {
    const std::scoped_lock lock(mutex_);
    is_cancelled_ = true;
    changed_.notify_all();
  }

  bool is_cancelled() {
    const std::scoped_lock lock(mutex_);
    return is_cancelled_;
  }

  // Returns true as soon as the server cancels the completion; false after kTestTimeout.
  bool wait_cancelled() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kTestTimeout, [this] { return is_cancelled_; });
  }

  const CompletionRequest request;

 private:
  std::shared_ptr<CompletionSink> sink_;
  std::map<uint32_t, AnswerSplitter> splitters_;  // one per choice
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_cancelled_ = false;
};

// A service without a model. Completions are answered by the test, or by the script of
// answer_with(). Any thread.
class FakeService final : public ServiceApi {
 public:
  ~FakeService() override {
    {
      const std::scoped_lock lock(mutex_);
      is_stopping_ = true;
      changed_.notify_all();
    }
    if (engine_.joinable()) engine_.join();
  }

  Result<std::unique_ptr<Completion>> complete(CompletionRequest request,
                                               std::shared_ptr<CompletionSink> sink) override {
    const std::scoped_lock lock(mutex_);
    nice_values_.push_back(getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())));
    if (refusal_ && calls_.size() >= n_accepted_) return std::unexpected(*refusal_);
    calls_.push_back(std::make_shared<FakeCall>(request, std::move(sink)));
    if (answer_) to_answer_.push_back(calls_.back());
    changed_.notify_all();
    return std::make_unique<Running>(calls_.back());
  }

  bool must_compile(const CompletionRequest& request) const override {
    return request.form.has_value();
  }
  Result<bool> try_compile(const CompletionRequest& request) override {
    if (request.form && request.form->text == "refused")
      return fail(ErrorCode::kInvalidArgument, "a form that cannot be kept", request.form->param);
    return !request.form || request.form->text != "long";
  }
  // Returns the nice values of the threads that called complete().
  std::vector<int> nice_values() const {
    const std::scoped_lock lock(mutex_);
    return nice_values_;
  }

  // Returns the embedding (number of tokens / 4, 1 for the last token) at once, or after
  // hold_embeddings() when answer_embeddings() is called.
  static constexpr size_t kNanTokens = 999;  // a prompt of so many tokens has NaN in its embedding
  Result<std::unique_ptr<Completion>> embed(EmbeddingRequest request,
                                            std::shared_ptr<EmbeddingSink> sink) override {
    const std::scoped_lock lock(mutex_);
    if (refusal_) return std::unexpected(*refusal_);
    embedded_.push_back(request);
    Usage usage;
    usage.prompt_tokens = static_cast<uint32_t>(request.engine.prompt.size());
    const bool is_nan = request.engine.prompt.size() == kNanTokens;
    std::vector<float> embedding = {is_nan ? NAN : static_cast<float>(usage.prompt_tokens) / 4,
                                    request.pooling == Pooling::kLast ? 1.0f : 0.0f};
    if (holds_embeddings_) {
      held_.emplace_back([sink, embedding, usage] { sink->on_embedding(embedding, usage); });
      changed_.notify_all();
    } else {
      sink->on_embedding(std::move(embedding), usage);
    }
    return std::make_unique<Nothing>();
  }
  void hold_embeddings() {
    const std::scoped_lock lock(mutex_);
    holds_embeddings_ = true;
  }
  // Waits until at least `n` embeddings are held, answers all of them and returns their number; 0
  // after kTestTimeout.
  size_t answer_embeddings(size_t n) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kTestTimeout, [&] { return held_.size() >= n; })) return 0;
    const auto answers = std::exchange(held_, {});
    lock.unlock();
    for (const auto& answer : answers) answer();
    return answers.size();
  }
  std::map<std::string, TokenId> specials;  // tokens with ids of their own, set by the test
  // Has a token for each byte, and one before the first text.
  Result<std::vector<PairPrompt>> pair_prompts(
      std::string_view first, std::span<const std::string_view> seconds) const override {
    std::vector<PairPrompt> pairs;
    for (const std::string_view second : seconds) {
      PairPrompt& pair = pairs.emplace_back();
      pair.second_segment = static_cast<uint32_t>(1 + first.size());
      pair.ids.resize(pair.second_segment + second.size());
    }
    return pairs;
  }
  size_t n_calls() const {
    const std::scoped_lock lock(mutex_);
    return calls_.size();
  }
  std::vector<EmbeddingRequest> embedded() const {
    const std::scoped_lock lock(mutex_);
    return embedded_;
  }

  std::vector<TokenId> tokenize(std::string_view text,
                                const TokenizeOptions& options) const override {
    if (const auto special = specials.find(std::string(text)); special != specials.end())
      return {special->second};
    std::vector<TokenId> ids;
    if (text == "more than there is") throw std::bad_alloc();
    if (options.add_bos) ids.push_back(1);
    if (options.parse_special) ids.push_back(2);
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }

  Result<std::string> detokenize(std::span<const TokenId> ids) const override {
    std::string text;
    for (const TokenId id : ids) {
      if (id > 127) return fail(ErrorCode::kInvalidArgument, "no such token", "tokens");
      text += static_cast<char>(id);
    }
    return text;
  }

  // Renders messages as lines of "role: content", tools as "tool NAME" and tool calls as "call NAME
  // ARGUMENT=…". Opens reasoning if chat_template_kwargs request it.
  Result<std::string> apply_template(const ChatRequest& request) const override {
    std::string text;
    for (const Message& given : request.messages) {
      const jinja::Value message = template_value(given);
      const jinja::Value* role = message.dict()->find(std::string_view("role"));
      const jinja::Value* content = message.dict()->find(std::string_view("content"));
      text += jinja::to_text(*role).bytes() + ": ";
      text += (content ? jinja::to_text(*content).bytes() : "") + "\n";
      const jinja::Value* calls = message.dict()->find(std::string_view("tool_calls"));
      for (const jinja::Value& call : calls ? calls->list()->items : std::vector<jinja::Value>())
        text += "call " + function_text(call) + "\n";
    }
    for (const Json& tool : request.tools)
      text += "tool " + function_text(template_value(tool)) + "\n";
    for (const auto& [name, value] : request.kwargs) {
      if (name == "refuse")
        return fail(ErrorCode::kInvalidArgument, "the template refuses", "messages");
      text += name + "=" + jinja::to_text(template_value(value)).bytes() + "\n";
    }
    return text + (request.add_generation_prompt ? "assistant:" : "");
  }
  Result<ChatPrompt> chat_prompt(const ChatRequest& request) const override {
    TRY_ASSIGN(const std::string text, apply_template(request));
    const bool is_enabled = text.find("think=True") != std::string::npos;
    ChatPrompt prompt{.ids = tokenize(text, {.add_bos = false}),
                      .answer_begin = is_enabled ? AnswerBegin::kReasoning : AnswerBegin::kText};
    if (!request.tools.empty() && !request.forbids_calls) {
      prompt.answer_syntax.calls = {&hermes_format()};
      prompt.answer_syntax.tools = std::make_shared<const ToolSchemas>(request.tools);
    }
    // A pin covers one token per byte of the message's text up to the mark.
    for (const Message& message : request.messages) {
      Message marked{.role = message.role, .parts = {}};
      for (const MessagePart& part : message.parts) {
        marked.parts.push_back(part);
        const auto* words = std::get_if<TextPart>(&part);
        if (!words || !words->pin_ttl) continue;
        prompt.pins.push_back({static_cast<uint32_t>(text_of(marked).size()), *words->pin_ttl});
      }
    }
    if (request.tools_pin_ttl) prompt.pins.push_back({0, *request.tools_pin_ttl});
    return prompt;
  }

  const ModelCard& card() const override { return card_; }
  AdapterRegistry* adapters() const override { return book; }
  AdapterRegistry* book = nullptr;  // set by the test
  EngineSnapshot snapshot() const override {
    const std::scoped_lock lock(mutex_);
    return snapshot_;
  }
  Result<void> watch(const std::shared_ptr<LiveSink>& sink) override {
    const std::scoped_lock lock(mutex_);
    if (refusal_) return std::unexpected(*refusal_);
    watcher_ = sink;
    changed_.notify_all();
    return {};
  }
  // Waits for a watcher and returns the newest one; null if it is gone or after kTestTimeout.
  std::shared_ptr<LiveSink> wait_for_watcher() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kTestTimeout, [&] { return !watcher_.expired(); });
    return watcher_.lock();
  }
  bool is_watched() {
    const std::scoped_lock lock(mutex_);
    return !watcher_.expired();
  }

  void show(const EngineSnapshot& snapshot) {
    const std::scoped_lock lock(mutex_);
    snapshot_ = snapshot;
  }

  // Fails every completion with this error after `n_accepted` have been accepted.
  void refuse(Error error, size_t n_accepted = 0) {
    const std::scoped_lock lock(mutex_);
    refusal_ = std::move(error);
    n_accepted_ = n_accepted;
  }

  // Answers every completion from now on with `script`, on a separate thread.
  void answer_with(std::function<void(FakeCall&)> script) {
    const std::scoped_lock lock(mutex_);
    answer_ = std::move(script);
    engine_ = std::thread([this] { answer_all(); });
  }

  // Waits for the i-th completion; null after kTestTimeout.
  std::shared_ptr<FakeCall> wait_for_call(size_t i = 0) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kTestTimeout, [&] { return calls_.size() > i; });
    return calls_.size() > i ? calls_[i] : nullptr;
  }

 private:
  class Running final : public Completion {
   public:
    explicit Running(std::shared_ptr<FakeCall> call) : call_(std::move(call)) {}
    ~Running() override { call_->cancel(); }
    uint32_t prompt_tokens() const override { return 3; }

   private:
    std::shared_ptr<FakeCall> call_;
  };

  struct Nothing final : Completion {
    uint32_t prompt_tokens() const override { return 0; }
  };

  // Returns a function's name and its arguments, if any.
  static std::string function_text(const jinja::Value& value) {
    const jinja::Dict& function = *value.dict()->find(std::string_view("function"))->dict();
    std::string text = jinja::to_text(*function.find(std::string_view("name"))).bytes();
    const jinja::Value* arguments = function.find(std::string_view("arguments"));
    if (!arguments || !arguments->dict()) return text;
    for (const auto& [name, argument] : arguments->dict()->entries)
      text += " " + jinja::to_text(name).bytes() + "=" + jinja::to_text(argument).bytes();
    return text;
  }

  void answer_all() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return is_stopping_ || !to_answer_.empty(); });
      if (is_stopping_) return;
      const auto call = to_answer_.front();
      to_answer_.pop_front();
      lock.unlock();
      answer_(*call);
      lock.lock();
    }
  }

  const ModelCard card_{.id = "tiny/model",
                        .architecture = "llama",
                        .created_s = 1700000000,
                        .n_ctx_max = 256,
                        .n_ctx_train = 256,
                        .n_vocab = 128,
                        .kv_tokens = 4096,
                        .page_tokens = 32,
                        .kv_type = "int8"};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  EngineSnapshot snapshot_;
  std::weak_ptr<LiveSink> watcher_;
  std::vector<EmbeddingRequest> embedded_;
  bool holds_embeddings_ = false;
  std::vector<std::function<void()>> held_;
  std::vector<int> nice_values_;
  std::vector<std::shared_ptr<FakeCall>> calls_;
  std::deque<std::shared_ptr<FakeCall>> to_answer_;
  std::optional<Error> refusal_;
  size_t n_accepted_ = 0;
  std::function<void(FakeCall&)> answer_;
  bool is_stopping_ = false;
  std::thread engine_;
};

}  // namespace kvik
