#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/dialects/answer_writer.h"

namespace kvik {

// JSON common to answers of several dialects.

boost::json::string to_json_string(std::string_view text);

// Returns the id that the model gave its call, else a generated one.
std::string call_id(const AnswerPart& call, std::string_view prefix);

// Returns "stop", "length" or null.
boost::json::value finish_reason_json(std::optional<FinishReason> finish);

// Returns -9999 for the infinite value of a masked token, as other servers do: JSON has no
// infinity.
double finite_logprob(float logprob);
// Returns null if the token has none.
boost::json::value optional_logprob_json(std::optional<float> logprob);
// Returns the token of an answer with its bytes and its alternatives.
boost::json::object token_logprob_json(const ChunkLogprob& logprob);

// Adds "prompt_logprobs" of a choice in vLLM's format: for each prompt token, the alternatives by
// id; null for the first token. `choice` is the one of the answer that has them.
void add_prompt_logprobs(const std::shared_ptr<const WholeAnswer>& answer, size_t choice,
                         JsonBody& body);

// Returns OpenAI's usage of completions and chats.
boost::json::object usage_json(const AnswerEnvelope& envelope, std::span<const Usage> usages);
// Returns the counts of draft tokens, under OpenAI's names for predicted tokens. Accepted ones are
// part of the answer; rejected ones are not counted elsewhere.
boost::json::object draft_tokens_json(const Usage& usage);
// Adds "kvik": {"cost", "restored_tokens"} to the usage of any dialect, as far as there are prices
// and restored tokens.
void add_kvik(const std::optional<Prices>& prices, const Usage& usage, boost::json::object& out);
boost::json::object envelope_json(const AnswerEnvelope& envelope, std::string_view object);
// Returns the fields after the choices of a whole answer.
boost::json::object openai_end(const AnswerEnvelope& envelope, const WholeAnswer& answer);
// Returns an event with results of one choice.
std::string openai_event(const AnswerEnvelope& envelope, std::string_view object,
                         boost::json::object choice);
// Adds the events after a stream's last chunk: usage and explanation if requested, then [DONE].
void end_openai_stream(const AnswerEnvelope& envelope, std::string_view object,
                       std::span<const Usage> usages, AnswerWriter::Events& events);
// Returns the final error event of such a stream.
std::string openai_error_event(const Error& error);

void add_explanation(const AnswerEnvelope& envelope, std::span<const Usage> usages,
                     boost::json::object& out);

// Final event of Kvik's own streams.
inline constexpr std::string_view kEndEvent = "event: end\ndata: {}\n\n";

// Return "data: …\n\n", and "event: NAME\ndata: …\n\n".
std::string event_of(std::string_view data);
std::string event_of(std::string_view name, std::string_view data);

}  // namespace kvik
