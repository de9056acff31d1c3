#pragma once

#include <boost/json/object.hpp>
#include <string_view>

#include "base/result.h"
#include "server/dialects/answer_writer.h"
#include "service/attest/attested_answer.h"

namespace kvik {

// Returns "kvik": {"attest": …} of an answer:
//   model, numerics, kv_type: as in AttestedAnswer
//   sampling: the parameters of all prompts
//   prompts: for each prompt {prompt, seed, min_tokens, stop_token_ids, adapter, constrained}. The
//     seed is a text, because many JSON readers round large integers
//   n_prompts, n: the number of prompts, and of the choices of each
//   choices: for each choice {links, ended, end}; its tokens are its token_ids
boost::json::object attestation_json(const Attestation& attestation, const WholeAnswer& answer);

// Reads an answer of /v1/completions or /v1/chat/completions with that object. Errors:
// kInvalidArgument, naming the first field that is missing or wrong.
Result<AttestedAnswer> read_attested_answer(std::string_view text);

}  // namespace kvik
