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

// What the answers of several dialects are made of.

boost::json::string to_json_string(std::string_view text);

// The id that the model gave its call, else one of ours.
std::string call_id(const AnswerPart& call, std::string_view prefix);

// "stop", "length" or null.
boost::json::value finish_reason_json(std::optional<FinishReason> finish);

// JSON has no infinity; -9999 is what other servers write for a token that was masked.
double finite_logprob(float logprob);
// Null where the token has none.
boost::json::value optional_logprob_json(std::optional<float> logprob);

// "prompt_logprobs" of a choice, vLLM's list: of each prompt token, what could stand there by its
// id; null for the first. The choice is that of the answer which has them.
void add_prompt_logprobs(const std::shared_ptr<const WholeAnswer>& answer, size_t choice,
                         JsonBody& body);

// OpenAI's, of completions and chats.
boost::json::object usage_json(const AnswerEnvelope& envelope, std::span<const Usage> usages);
// Guessed tokens, by OpenAI's names for those of a prediction: right ones are a part of the answer,
// the others count nowhere else.
boost::json::object guesses_json(const Usage& usage);
// "kvik": {"cost": …} in any dialect's usage, where there are prices.
void add_cost(const std::optional<Prices>& prices, const Usage& usage, boost::json::object& out);
boost::json::object envelope_json(const AnswerEnvelope& envelope, std::string_view object);
// What stands behind the choices of a whole answer.
boost::json::object openai_end(const AnswerEnvelope& envelope, std::span<const Usage> usages);
// An event with news of one choice.
std::string openai_event(const AnswerEnvelope& envelope, std::string_view object,
                         boost::json::object choice);
// The news behind a stream's last chunk: usage and explanation where asked for, then [DONE].
void end_openai_stream(const AnswerEnvelope& envelope, std::string_view object,
                       std::span<const Usage> usages, AnswerWriter::Events& events);
// The last words of such a stream.
std::string openai_error_event(const Error& error);

void add_explanation(const AnswerEnvelope& envelope, std::span<const Usage> usages,
                     boost::json::object& out);

// Of streams of our own, where nothing follows.
inline constexpr std::string_view kEndEvent = "event: end\ndata: {}\n\n";

// "data: …\n\n", and "event: NAME\ndata: …\n\n".
std::string event_of(std::string_view data);
std::string event_of(std::string_view name, std::string_view data);

}  // namespace kvik
