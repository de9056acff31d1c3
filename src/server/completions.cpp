#include <chrono>
#include <utility>

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
  return {.id = random_id("cmpl-"),
          .model = service.card().id,
          .created_s = std::chrono::duration_cast<std::chrono::seconds>(now).count(),
          .wants_logprobs = first.n_logprobs.has_value(),
          .wants_token_ids = first.return_token_ids,
          .include_usage = call.include_usage};
}

// All or none: where one is refused, those before it are cancelled.
Result<RunningCompletions> submit(const HandlerContext& context, const CompletionCall& call) {
  RunningCompletions running;
  std::optional<size_t> limit_bytes;  // a whole answer is bounded by max_tokens
  if (call.is_stream) limit_bytes = context.options.stream_buffer_bytes;
  running.mailbox = std::make_shared<CompletionMailbox>(call.requests.size(), limit_bytes);
  uint32_t first_choice = 0;
  for (const CompletionRequest& request : call.requests) {
    auto sink = std::make_shared<MailboxSink>(running.mailbox, first_choice);
    TRY_ASSIGN(auto completion, context.service.complete(request, std::move(sink)));
    running.completions.push_back(std::move(completion));
    first_choice += request.n;
  }
  return running;
}

}  // namespace

Reply handle_completions(const HandlerContext& context, const HttpRequest& request) {
  const auto call = parse_completion_call(request.body);
  if (!call) return error_response(call.error());
  auto running = submit(context, *call);
  if (!running) return error_response(running.error());
  CompletionEnvelope envelope = envelope_of(*call, context.service);
  if (call->is_stream)
    return std::make_unique<StreamedCompletion>(std::move(envelope), std::move(*running));
  return std::make_unique<WholeCompletion>(std::move(envelope), std::move(*running));
}

}  // namespace kvik
