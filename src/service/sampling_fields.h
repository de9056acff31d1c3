#pragma once

#include <span>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "engine/request/request.h"

namespace kvik {

// A numeric field of SamplingParams as users see it. The request field of every dialect, the
// setting of the chat and the flag of `kvik run` are all made from, and checked by, one row.
struct SamplingField {
  std::string_view name;  // "top_p"; the flag is --top-p
  std::variant<float SamplingParams::*, uint32_t SamplingParams::*> member;
  bool (*is_within)(double value);  // false for NaN
  std::string_view range;           // the accepted range in words, for the error message
  std::string_view help;
  bool shows_default = true;  // the flag's help shows the default
};

std::span<const SamplingField> sampling_fields();

// Returns kInvalidArgument naming the first field whose value is out of range.
Result<void> check_sampling(const SamplingParams& sampling);

}  // namespace kvik
