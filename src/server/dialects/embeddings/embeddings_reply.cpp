#include "server/dialects/embeddings/embeddings_reply.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <bit>
#include <boost/json/serialize.hpp>
#include <iterator>
#include <utility>

#include "server/dialects/event_json.h"
#include "server/dialects/json_body.h"
#include "server/http/status.h"

namespace kvik {
namespace {

constexpr size_t kAtOnce = 16;

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

std::string to_base64(std::span<const std::byte> bytes) {
  std::string out((bytes.size() + 2) / 3 * 4 + 1, '\0');  // OpenSSL terminates it with NUL
  const int n = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                reinterpret_cast<const unsigned char*>(bytes.data()),
                                static_cast<int>(bytes.size()));
  out.resize(static_cast<size_t>(n));
  return out;
}

// Formatted directly: as JSON values, two thousand embeddings would take a gigabyte.
void write(const std::vector<float>& embedding, EmbeddingsCall::Encoding encoding,
           std::string& out) {
  static_assert(std::endian::native == std::endian::little);  // the byte order in base64
  if (encoding == EmbeddingsCall::Encoding::kBase64) {
    out += '"' + to_base64(std::as_bytes(std::span(embedding))) + '"';
    return;
  }
  out += '[';
  for (const float value : embedding)
    fmt::format_to(std::back_inserter(out), "{}{}", out.back() == '[' ? "" : ",", value);
  out += ']';
}

}  // namespace

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
                                 std::shared_ptr<KeyAccount> account, std::optional<Prices> prices,
                                 ByteShare share)
    : service_(service),
      call_(std::move(call)),
      account_(std::move(account)),
      prices_(prices),
      mailbox_(std::make_shared<EmbeddingsMailbox>(call_.requests.size())),
      share_(std::move(share)) {}

Result<void> EmbeddingsReply::start() { return submit_next(); }

// While requests of this call are running, a full queue is not an error: the rejected request is
// submitted again.
Result<void> EmbeddingsReply::submit_next() {
  const size_t n_done = mailbox_->n_done();
  while (running_.size() < std::min(call_.requests.size(), n_done + kAtOnce)) {
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

HttpResponse EmbeddingsReply::response() {
  if (error_) return error_response(*error_);
  auto results = std::make_shared<std::vector<EmbeddingsMailbox::Result>>(mailbox_->take());
  for (const EmbeddingsMailbox::Result& result : *results) {
    if (!result.embedding)
      return error_response(Error{ErrorCode::kUnavailable, "this request was cut off"});
    usage_.prompt_tokens += result.usage.prompt_tokens;
  }
  constexpr size_t kGrowth = 3;  // ratio of a decimal number to its four bytes
  const size_t weight_bytes = kGrowth * share_.n_bytes();
  auto body = std::make_unique<JsonBody>(weight_bytes, std::move(share_));
  body->text(R"({"object":"list","data":[)");
  body->each(results->size(), [results, encoding = call_.encoding](size_t i, std::string& out) {
    fmt::format_to(std::back_inserter(out), R"({{"object":"embedding","index":{},"embedding":)", i);
    write(*(*results)[i].embedding, encoding, out);
    out += '}';
  });
  boost::json::object usage{{"prompt_tokens", usage_.prompt_tokens},
                            {"total_tokens", usage_.prompt_tokens},
                            {"prompt_tokens_details", {{"cached_tokens", 0}}}};
  add_cost(prices_, usage_, usage);
  body->text(fmt::format(R"(],"model":{},"usage":{}}})",
                         boost::json::serialize(to_json_string(service_.card().id.text())),
                         boost::json::serialize(usage)));
  return {.status = 200, .body = "", .source = std::move(body)};
}

std::string EmbeddingsReply::summary() const {
  return fmt::format("embeddings={} prompt={}", call_.requests.size(), usage_.prompt_tokens);
}

}  // namespace kvik
