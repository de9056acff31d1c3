#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "server/dialects/answer_writer.h"
#include "server/dialects/completion_call.h"
#include "server/handlers.h"

namespace kvik {

// The dialect-specific parts of an answer.
struct AnswerDialect {
  std::string_view id_prefix;  // "cmpl-"
  // Fields with another name in this dialect: the common name and the dialect's.
  std::vector<std::pair<std::string_view, std::string_view>> renamed;
  // May be called after the handler has returned, on another thread: it owns everything it refers
  // to.
  std::function<std::unique_ptr<AnswerWriter>(AnswerEnvelope)> make_writer;
  bool can_attest = false;  // its answers can hold an attestation
  // If present, it receives the running answer and returns the reply. The answer is then
  // independent of the connection. Not for streams.
  std::function<Reply(std::unique_ptr<PendingReply>)> detach = {};
};

// Returns the error of a call with the field name of the dialect.
Error with_dialect_param(const AnswerDialect& dialect, Error error);

// Returns the expected waiting time of a new request, for the Retry-After header.
std::chrono::seconds wait_of(const ServiceApi& service);

// Submits the call, later and on another thread if a constraint must be compiled or an adapter
// loaded; an error of the call becomes the answer.
Reply start_completion(const HandlerContext& context, const HttpRequest& request,
                       Result<CompletionCall> call, const AnswerDialect& dialect);

}  // namespace kvik
