#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/completion_events.h"

namespace kvik {

// What the answers of the two completion routes are made of.

boost::json::string to_json_string(std::string_view text);

// "stop", "length" or null.
boost::json::value finish_reason_json(std::optional<FinishReason> finish);

// JSON has no infinity; -9999 is what other servers write for a token that was masked.
double finite_logprob(float logprob);

boost::json::object usage_json(std::span<const Usage> usages);
boost::json::object envelope_json(const CompletionEnvelope& envelope, std::string_view object);
void add_explanation(const CompletionEnvelope& envelope, std::span<const Usage> usages,
                     boost::json::object& out);

// "data: …\n\n".
std::string event_of(std::string_view data);

}  // namespace kvik
