#pragma once

#include <span>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "engine/request/request.h"

namespace kvik {

// A number of SamplingParams as the world knows it: the field of every dialect, the setting of the
// chat and the flag of `kvik run` are made of one row, and checked by it.
struct SamplingField {
  std::string_view name;  // "top_p"; the flag is --top-p
  std::variant<float SamplingParams::*, uint32_t SamplingParams::*> member;
  bool (*is_within)(double value);  // false of a NaN
  std::string_view range;           // what is_within() takes, for the sentence that refuses
  std::string_view help;
  bool shows_default = true;  // in the flag's help
};

std::span<const SamplingField> sampling_fields();

// kInvalidArgument naming the first field whose value lies outside its range.
Result<void> check_sampling(const SamplingParams& sampling);

}  // namespace kvik
