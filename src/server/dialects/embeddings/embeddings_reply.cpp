#include "server/dialects/embeddings/embeddings_reply.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/dialects/json_body.h"
#include "server/dialects/start_completion.h"
#include "server/http/auth.h"
#include "server/http/status.h"

namespace kvik {
namespace {

// Texts of a call that are submitted at the same time. An encoder computes up to 64 together, and
// should find the next ones when it has finished.
constexpr size_t kAtOnce = 16;
constexpr size_t kAtOnceEncoder = 128;

class Sink final : public EmbeddingSink {
 public:
  Sink(std::shared_ptr<EmbeddingsMailbox> mailbox, std::shared_ptr<KeyAccount> account, size_t i)
      : mailbox_(std::move(mailbox)), account_(std::move(account)), i_(i) {}
  void on_embedding(std::optional<std::vector<float>> embedding, const Usage& usage) override {
    account_->add(usage);
    mailbox_->put(i_, {std::move(embedding), usage});
  }

 private:
  std::shared_ptr<EmbeddingsMailbox> mailbox_;
  std::shared_ptr<KeyAccount> account_;
  size_t i_;
};

}  // namespace

// Formatted directly: as JSON values, two thousand embeddings would take a gigabyte.
void write_numbers(const std::vector<float>& numbers, std::string& out) {
  out += '[';
  for (const float value : numbers)
    fmt::format_to(std::back_inserter(out), "{}{}", out.back() == '[' ? "" : ",", value);
  out += ']';
}

void EmbeddingsMailbox::put(size_t i, Result result) {
  const MutexLock lock(mutex_);
  results_.at(i) = std::move(result);
  ++n_done_;
  if (wake_) wake_();
}

size_t EmbeddingsMailbox::n_done() const {
  const MutexLock lock(mutex_);
  return n_done_;
}

std::vector<EmbeddingsMailbox::Result> EmbeddingsMailbox::take() {
  const MutexLock lock(mutex_);
  return std::move(results_);
}

void EmbeddingsMailbox::set_wake(std::function<void()> wake) {
  const MutexLock lock(mutex_);
  wake_ = std::move(wake);
  if (wake_ && n_done_ > 0) wake_();
}

size_t numbers_bytes(const EmbeddingsCall& call, const ModelCard& card) {
  const uint32_t n_dims =
      std::min(call.requests.front().n_dims.value_or(card.model_dim), card.model_dim);
  return call.requests.size() * n_dims * sizeof(float);
}

EmbeddingsReply::EmbeddingsReply(ServiceApi& service, EmbeddingsCall call,
                                 std::shared_ptr<KeyAccount> account, WriteEmbeddings write,
                                 ByteShare share)
    : service_(service),
      call_(std::move(call)),
      account_(std::move(account)),
      write_(std::move(write)),
      mailbox_(std::make_shared<EmbeddingsMailbox>(call_.requests.size())),
      share_(std::move(share)) {}

Result<void> EmbeddingsReply::start() { return submit_next(); }

// While requests of this call are running, a full queue is not an error: the rejected request is
// submitted again.
Result<void> EmbeddingsReply::submit_next() {
  const size_t n_done = mailbox_->n_done();
  const size_t n_at_once = service_.card().generates ? kAtOnce : kAtOnceEncoder;
  while (running_.size() < std::min(call_.requests.size(), n_done + n_at_once)) {
    auto sink = std::make_shared<Sink>(mailbox_, account_, running_.size());
    auto completion = service_.embed(call_.requests[running_.size()], std::move(sink));
    const bool is_full = !completion && completion.error().code == ErrorCode::kExhausted;
    if (is_full && running_.size() > n_done) return {};
    if (!completion) return std::unexpected(completion.error());
    running_.push_back(std::move(*completion));
  }
  return {};
}

PendingReply::State EmbeddingsReply::advance(std::string&) {
  if (mailbox_->n_done() == call_.requests.size()) return State::kDone;
  if (const auto submitted = submit_next(); !submitted) error_ = submitted.error();
  return error_ ? State::kDone : State::kRunning;
}

bool EmbeddingsReply::will_submit() const {
  return !error_ && running_.size() < call_.requests.size();
}

HttpResponse EmbeddingsReply::response() {
  if (error_) return error_response(*error_);
  auto results = std::make_shared<std::vector<EmbeddingsMailbox::Result>>(mailbox_->take());
  for (const EmbeddingsMailbox::Result& result : *results) {
    if (!result.embedding)
      return error_response(Error{ErrorCode::kUnavailable, "this request was cut off"});
    if (!are_finite(*result.embedding))
      return error_response(Error{ErrorCode::kIo, std::string(kNotFinite)});
    usage_.prompt_tokens += result.usage.prompt_tokens;
    usage_.queue_time = std::max(usage_.queue_time, result.usage.queue_time);
  }
  constexpr size_t kGrowth = 3;  // ratio of a decimal number to its four bytes
  const size_t weight_bytes = kGrowth * share_.n_bytes();
  auto body = std::make_unique<JsonBody>(weight_bytes, std::move(share_));
  write_(results, usage_, *body);
  return {.status = 200, .body = "", .source = std::move(body)};
}

std::string EmbeddingsReply::summary() const {
  return fmt::format("embeddings={} prompt={}", call_.requests.size(), usage_.prompt_tokens);
}

Reply start_embeddings(const HandlerContext& context, const HttpRequest& request,
                       Result<EmbeddingsCall> call, std::string_view input, WriteEmbeddings write) {
  if (!call) return error_response(call.error());
  const ApiKey* key = find_key(request, context.options);
  if (key) {
    for (EmbeddingRequest& one : call->requests) {
      one.engine.tenant = key->name;
      one.engine.cache_salt = salt_of(*key, one.engine.cache_salt);
      one.engine.ranks = ranks_of(*key);
    }
  }
  ByteShare share(context.memory.answers);
  if (!share.grow(numbers_bytes(*call, context.service.card()))) return error_response(no_memory());
  auto reply =
      std::make_unique<EmbeddingsReply>(context.service, std::move(*call), context.accounts.of(key),
                                        std::move(write), std::move(share));
  if (const auto started = reply->start(); !started) {
    Error error = started.error();
    if (error.param == "prompt") error.param = input;
    return error_response(error, wait_of(context.service));
  }
  return reply;
}

}  // namespace kvik
