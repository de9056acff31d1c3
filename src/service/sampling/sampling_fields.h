#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "engine/request/request.h"

namespace kvik {

// A number in SamplingParams or in one of its parts.
template <class Number>
struct SamplingNumber {
  Number& (*in)(SamplingParams& params);
  Number (*of)(const SamplingParams& params);
};

// A numeric field of SamplingParams as users see it. The request field of every dialect, the
// setting of the chat and the flag of `kvik run` are all made from, and checked by, one row.
struct SamplingField {
  std::string_view name;  // "top_p"; the flag is --top-p
  std::variant<SamplingNumber<float>, SamplingNumber<uint32_t>> number;
  bool (*is_within)(double value);  // false for NaN
  std::string_view range;           // the accepted range in words, for the error message
  std::string_view help;
  bool shows_default = true;               // the flag's help shows the default
  std::optional<uint32_t> minus_one = {};  // value of a count that is given as -1
};

std::span<const SamplingField> sampling_fields();

// Parses a value; returns false if it is not a number of the field's type.
bool read_field(const SamplingField& field, std::string_view text, SamplingParams& params);
// Returns the value; -1 for the count that this means.
std::variant<float, uint32_t, int> value_of(const SamplingField& field,
                                            const SamplingParams& params);

// Returns kInvalidArgument naming the first field whose value is out of range.
Result<void> check_sampling(const SamplingParams& sampling);

}  // namespace kvik
