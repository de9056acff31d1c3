#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/dialects/json_fields.h"
#include "service/service_api.h"

namespace kvik {

// Readers of sampling fields, with the names of llama.cpp and vLLM. Errors: kInvalidArgument,
// kUnsupported, with the field in `param`.

// Reads the fields of all sampling_fields(). `repetition_name`: the dialect's name of
// repetition_penalty.
Result<void> read_sampling_numbers(const JsonFields& fields, SamplingParams& sampling,
                                   std::string_view repetition_name = "repetition_penalty");

// Reads `samplers`: an array of names, or a string of letters.
Result<void> read_sampler_order(const JsonFields& fields, SamplingParams& sampling);
// Returns an order as letters.
std::string sampler_letters(std::span<const SamplerKind> order);

// Reads read_sampling_numbers(), `samplers`, `dry_sequence_breakers`, and the texts and tokens that
// may not appear: `bad_words`, `banned_strings`, `banned_tokens`.
Result<void> read_samplers(const JsonFields& fields, CompletionRequest& request,
                           std::string_view repetition_name = "repetition_penalty");

// Reads `logit_bias`: an object whose keys are token ids, or an array of pairs of a token id or a
// text and its bias; false: never.
Result<void> read_logit_bias(const JsonFields& fields, CompletionRequest& request);

}  // namespace kvik
