#pragma once

#include <boost/json/object.hpp>
#include <memory>

#include "server/dialects/answer_writer.h"

namespace kvik {

// Answers of OpenAI's /v1/responses: an output message, and before it the thoughts as an item of
// their own. `echo` holds the fields of the request that the answer repeats.
std::unique_ptr<AnswerWriter> make_responses_writer(AnswerEnvelope envelope,
                                                    boost::json::object echo);

}  // namespace kvik
