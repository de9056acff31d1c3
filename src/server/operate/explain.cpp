#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/json/serialize.hpp>
#include <limits>
#include <memory>

#include "server/dialects/event_json.h"
#include "server/dialects/request_body.h"
#include "server/handlers.h"
#include "server/http/auth.h"
#include "server/http/random_id.h"
#include "server/http/status.h"
#include "server/operate/explain_json.h"

namespace kvik {
namespace {

// tokens; the run without cache computes all of them for each token
constexpr uint32_t kMaxPrompt = 512;
// longer prompts are rejected without tokenizing
constexpr size_t kMaxPromptBytes = 64 * size_t{kMaxPrompt};
constexpr uint32_t kMaxTokens = 64;
constexpr uint32_t kRepeats = 3;
constexpr uint64_t kMaxLogitsBytes = uint64_t{64} << 20;  // kept for comparison

// Allows one experiment at a time: each keeps up to kMaxLogitsBytes and runs for seconds.
class Turn {
 public:
  static std::unique_ptr<Turn> take() {
    return is_taken_.exchange(true) ? nullptr : std::unique_ptr<Turn>(new Turn);
  }
  ~Turn() { is_taken_ = false; }

 private:
  Turn() = default;
  static inline std::atomic<bool> is_taken_ = false;
};

// Server-sent events: `tokens` of the first run of each kind as they arrive, `repeat` when all
// kinds were run once more, then `report`, then `end`. Network thread.
class ExplainReply final : public PendingReply {
 public:
  // The share covers the logits that the experiment keeps.
  ExplainReply(std::unique_ptr<Turn> turn, const ServiceApi& service,
               std::unique_ptr<CacheExperiment> experiment, ByteShare share)
      : turn_(std::move(turn)),
        service_(service),
        experiment_(std::move(experiment)),
        share_(std::move(share)) {}

  Kind kind() const override { return Kind::kStream; }
  void set_wake(std::function<void()> wake) override { experiment_->set_wake(std::move(wake)); }
  std::string final_error_event(const Error& error) const override {
    return openai_error_event(error);
  }
  std::string summary() const override {
    return fmt::format("explain prompt={} runs={}", experiment_->options().prompt.size(),
                       experiment_->runs().size());
  }

  State advance(std::string& out) override {
    const Result<bool> is_done = experiment_->advance();
    const auto& runs = experiment_->runs();
    for (; n_runs_shown_ < runs.size(); ++n_runs_shown_, n_tokens_shown_ = 0) {
      const TracedRun& run = runs[n_runs_shown_];
      if (run.tokens.size() > n_tokens_shown_) {
        out += event_of("tokens", boost::json::serialize(traced_tokens_json(run, n_tokens_shown_)));
        n_tokens_shown_ = run.tokens.size();
      }
      if (n_runs_shown_ + 1 == runs.size()) break;
    }
    if (experiment_->n_repeats() > n_repeats_shown_) {
      n_repeats_shown_ = experiment_->n_repeats();
      out +=
          event_of("repeat", fmt::format(R"({{"number":{},"of":{}}})", n_repeats_shown_, kRepeats));
    }
    if (is_done && !*is_done) return State::kRunning;
    turn_.reset();  // a client may start again as soon as it reads the end
    if (!is_done) {
      out += openai_error_event(is_done.error());
      return State::kDone;
    }
    boost::json::object report = experiment_json(service_, *experiment_);
    report["model"] = experiment_->options().model.value_or(service_.card().id.text());
    report["context"] = service_.card().n_ctx_max;
    out += event_of("report", boost::json::serialize(report));
    out += kEndEvent;
    return State::kDone;
  }

  HttpResponse response() override { return event_stream(); }

 private:
  std::unique_ptr<Turn> turn_;
  const ServiceApi& service_;
  std::unique_ptr<CacheExperiment> experiment_;
  const ByteShare share_;
  size_t n_runs_shown_ = 0;    // number of complete runs
  size_t n_tokens_shown_ = 0;  // number of tokens of the run after them
  uint32_t n_repeats_shown_ = 1;
};

Result<CacheExperiment::Options> parse_call(const HandlerContext& context,
                                            const RequestBody& body) {
  TRY_ASSIGN(const JsonFields fields, body.fields());
  TRY_ASSIGN(const auto text, fields.text("prompt"));
  TRY_ASSIGN(const auto max_tokens, fields.count<uint32_t>("max_tokens"));
  if (!text) return refuse("prompt", "prompt is missing");
  if (text->size() > kMaxPromptBytes) {
    return refuse("prompt", fmt::format("the prompt has {} bytes, expected at most {}",
                                        text->size(), kMaxPromptBytes));
  }
  const uint32_t n_vocab = std::max(1u, context.service.card().n_vocab);
  const auto most = static_cast<uint32_t>(
      std::min<uint64_t>(kMaxTokens, kMaxLogitsBytes / sizeof(float) / n_vocab));
  CacheExperiment::Options options{
      .prompt = context.service.tokenize(*text, {.add_bos = true, .parse_special = false}),
      .max_tokens = max_tokens.value_or(most),
      .cache_salt = random_id("explain-"),
      .tenant = "",
      .priority = std::numeric_limits<int32_t>::max(),  // other requests come first
      .model = {},
      .repeats = kRepeats};
  TRY_ASSIGN(options.model, fields.string("model"));
  if (options.max_tokens < 4 || options.max_tokens > most) {
    return refuse("max_tokens",
                  fmt::format("max_tokens is {}, expected 4 to {}", options.max_tokens, most));
  }
  if (options.prompt.empty() || options.prompt.size() > kMaxPrompt) {
    return refuse("prompt", fmt::format("the prompt has {} tokens, expected 1 to {}",
                                        options.prompt.size(), kMaxPrompt));
  }
  return options;
}

}  // namespace

Reply handle_explain(const HandlerContext& context, const HttpRequest& request,
                     const RequestBody& body) {
  auto options = parse_call(context, body);
  if (!options) return error_response(options.error());
  if (const ApiKey* key = find_key(request, context.options)) {
    options->tenant = key->name;
    options->cache_salt = salt_of(*key, options->cache_salt);
  }
  auto turn = Turn::take();
  if (!turn) {
    return error_response(
        Error{ErrorCode::kExhausted, "another explain request is running, expected one at a time"});
  }
  ByteShare share(context.memory.answers);
  const size_t n_vocab = context.service.card().n_vocab;
  if (!share.grow(options->max_tokens * n_vocab * sizeof(float))) {
    return error_response(no_memory());
  }
  auto experiment = std::make_unique<CacheExperiment>(context.service, std::move(*options));
  const Result<void> started = experiment->start();
  if (!started) return error_response(started.error());
  return std::make_unique<ExplainReply>(std::move(turn), context.service, std::move(experiment),
                                        std::move(share));
}

}  // namespace kvik
