#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "server/auth.h"
#include "server/completion_json.h"
#include "server/completion_reply.h"
#include "server/handlers.h"
#include "server/random_id.h"
#include "server/status.h"

namespace kvik {
namespace {

CompletionEnvelope envelope_of(const CompletionCall& call, const ServiceApi& service) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const CompletionRequest& first = call.requests.front();
  return {.id = random_id(call.is_chat ? "chatcmpl-" : "cmpl-"),
          .model = service.card().id,
          .created_s = std::chrono::duration_cast<std::chrono::seconds>(now).count(),
          .wants_logprobs = first.n_logprobs.has_value(),
          .wants_token_ids = first.return_token_ids,
          .include_usage = call.include_usage,
          .explain_cache = std::nullopt,
          .dialect = call.is_chat ? CompletionEnvelope::Dialect::kChat
                                  : CompletionEnvelope::Dialect::kText,
          .begins_in_thought = call.begins_in_thought};
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

// What a new request would have to wait, for one that is told to come back later.
std::chrono::seconds wait_of(const ServiceApi& service) {
  constexpr double kLongest = 120;
  const double wait_s = std::ceil(service.snapshot().queue_wait_s);
  return std::chrono::seconds(static_cast<int64_t>(std::clamp(wait_s, 1.0, kLongest)));
}

// All or none: where one is refused, those before it are cancelled.
Result<RunningCompletions> submit(const HandlerContext& context, const CompletionCall& call) {
  RunningCompletions running;
  running.mailbox = std::make_shared<CompletionMailbox>(call.requests.size(),
                                                        buffer_bytes(context.options, call));
  uint32_t first_choice = 0;
  for (const CompletionRequest& request : call.requests) {
    auto sink =
        std::make_shared<MailboxSink>(running.mailbox, running.completions.size(), first_choice);
    TRY_ASSIGN(auto completion, context.service.complete(request, std::move(sink)));
    running.completions.push_back(std::move(completion));
    first_choice += request.n;
  }
  return running;
}

}  // namespace

Reply start_completion(const HandlerContext& context, const HttpRequest& request,
                       Result<CompletionCall> call) {
  if (!call) return error_response(call.error());
  const auto& keys = context.options.api_keys;
  const ApiKey* key = keys ? find_key(request, *keys) : nullptr;
  if (key) apply_key(*key, *call);
  auto running = submit(context, *call);
  if (!running) {
    Error error = running.error();
    if (call->is_chat && error.param == "prompt") error.param = "messages";
    return error_response(error, wait_of(context.service));
  }
  CompletionEnvelope envelope = envelope_of(*call, context.service);
  if (call->explain_cache) envelope.explain_cache = reach_of(key);
  if (call->is_stream)
    return std::make_unique<StreamedCompletion>(std::move(envelope), std::move(*running));
  return std::make_unique<WholeCompletion>(std::move(envelope), std::move(*running));
}

Reply handle_completions(const HandlerContext& context, const HttpRequest& request) {
  return start_completion(context, request, parse_completion_call(request.body));
}

}  // namespace kvik
