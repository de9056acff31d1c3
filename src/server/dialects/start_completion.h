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

// What of an answer depends on the dialect it is asked for in.
struct AnswerDialect {
  std::string_view id_prefix;  // "cmpl-"
  // Fields of completions and chats that have another name here: ours and theirs.
  std::vector<std::pair<std::string_view, std::string_view>> renamed;
  // May be called after the handler has returned, on another thread: it owns what it refers to.
  std::function<std::unique_ptr<AnswerWriter>(AnswerEnvelope)> make_writer;
};

// The error of a call, with the field in the dialect's words.
Error in_words_of(const AnswerDialect& dialect, Error error);

// What a new request would have to wait, for one that is told to come back later.
std::chrono::seconds wait_of(const ServiceApi& service);

// Submits what was asked for, later and elsewhere where a form is to be compiled first or an
// adapter to be read; an error of the call becomes the answer.
Reply start_completion(const HandlerContext& context, const HttpRequest& request,
                       Result<CompletionCall> call, const AnswerDialect& dialect);

}  // namespace kvik
