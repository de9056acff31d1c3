#include "server/dialects/start_completion.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "server/dialects/completion_reply.h"
#include "server/http/random_id.h"
#include "server/http/status.h"
#include "server/operate/auth.h"

namespace kvik {
namespace {

AnswerEnvelope envelope_of(const CompletionCall& call, const ServiceApi& service) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const CompletionRequest& first = call.requests.front();
  AnswerEnvelope envelope;
  envelope.model = service.card().id;
  envelope.created_s = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  envelope.wants_logprobs = first.n_logprobs.has_value();
  envelope.wants_prompt_logprobs = first.n_prompt_logprobs.has_value();
  envelope.wants_token_ids = first.return_token_ids;
  envelope.include_usage = call.include_usage;
  envelope.n_marked = first.pin_ttl ? UINT32_MAX : 0;
  for (const Pin& pin : first.pins) envelope.n_marked = std::max(envelope.n_marked, pin.n_tokens);
  return envelope;
}

// The key decides what the body may only wish where there are no keys.
void apply_key(const ApiKey& key, CompletionCall& call) {
  for (CompletionRequest& request : call.requests) {
    request.tenant = key.name;
    request.cache_salt = salt_of(key, request.cache_salt);
  }
}

CacheReach reach_of(const ApiKey* key) {
  if (!key) return CacheReach::kEverybody;
  return key->cache_salt.empty() ? CacheReach::kStrangers : CacheReach::kOwnSalt;
}

// A whole answer is bounded by max_tokens.
std::optional<size_t> buffer_bytes(const ServerOptions& options, const CompletionCall& call) {
  constexpr size_t kWithLogprobs = 16;  // what a token with some logprobs weighs, in plain tokens
  constexpr size_t kMaxBytes = size_t{2} << 20;
  if (!call.is_stream) return std::nullopt;
  const CompletionRequest& first = call.requests.front();
  const size_t n_choices = call.requests.size() * std::max(1u, first.n);
  const size_t bytes =
      options.stream_buffer_bytes * n_choices * (first.n_logprobs ? kWithLogprobs : 1);
  return std::min(bytes, std::max(kMaxBytes, options.stream_buffer_bytes));
}

// All or none: where one is refused, those before it are cancelled.
Result<RunningCompletions> submit(const HandlerContext& context, const CompletionCall& call,
                                  const ApiKey* key) {
  RunningCompletions running;
  running.mailbox = std::make_shared<CompletionMailbox>(call.requests.size(),
                                                        buffer_bytes(context.options, call));
  uint32_t first_choice = 0;
  for (const CompletionRequest& request : call.requests) {
    auto sink = std::make_shared<MailboxSink>(running.mailbox, context.accounts.of(key),
                                              running.completions.size(), first_choice);
    TRY_ASSIGN(auto completion, context.service.complete(request, std::move(sink)));
    running.completions.push_back(std::move(completion));
    first_choice += request.n;
  }
  return running;
}

}  // namespace

std::chrono::seconds wait_of(const ServiceApi& service) {
  constexpr double kLongest = 120;
  const double wait_s = std::ceil(service.snapshot().queue_wait_s);
  return std::chrono::seconds(static_cast<int64_t>(std::clamp(wait_s, 1.0, kLongest)));
}

Error in_words_of(const AnswerDialect& dialect, Error error) {
  for (const auto& [ours, theirs] : dialect.renamed) {
    if (error.param != ours) continue;
    error.param = theirs;
    break;
  }
  return error;
}

Reply start_completion(const HandlerContext& context, const HttpRequest& request,
                       Result<CompletionCall> call, const AnswerDialect& dialect) {
  if (!call) return error_response(in_words_of(dialect, call.error()));
  const ApiKey* key = find_key(request, context.options);
  if (key) apply_key(*key, *call);
  auto running = submit(context, *call, key);
  if (!running) {
    return error_response(in_words_of(dialect, running.error()), wait_of(context.service));
  }
  AnswerEnvelope envelope = envelope_of(*call, context.service);
  envelope.id = random_id(dialect.id_prefix);
  envelope.request_id = request.id;
  envelope.prices = context.options.prices;
  if (call->explain_cache) envelope.explain_cache = reach_of(key);
  std::string id = envelope.id;
  auto writer = dialect.make_writer(std::move(envelope));
  if (call->is_stream)
    return std::make_unique<StreamedCompletion>(std::move(id), std::move(writer),
                                                std::move(*running));
  return std::make_unique<WholeCompletion>(std::move(id), std::move(writer), std::move(*running));
}

}  // namespace kvik
