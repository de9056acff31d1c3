#pragma once

#include <boost/json/object.hpp>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "service/service_api.h"

namespace kvik {

// What a body asks for, in whatever dialect.
struct CompletionCall {
  // One for each prompt, alike in all else. Choices are numbered through: those of the first
  // prompt come first.
  std::vector<CompletionRequest> requests;
  bool is_stream = false;
  bool include_usage = false;  // a stream ends with a chunk that holds it
  bool explain_cache = false;  // the answer tells what the cache did
};

// All but the prompt: one request without any. Errors as parse_completion_call().
Result<CompletionCall> read_common_call(const boost::json::object& object);

// Checks types and what does not fit them; ranges are the service's business. Unknown fields are
// ignored, but those that would change the answer and cannot be obeyed are refused.
// Errors: kInvalidArgument, kUnsupported, with the field in `param`.
Result<CompletionCall> parse_completion_call(std::string_view body);

}  // namespace kvik
