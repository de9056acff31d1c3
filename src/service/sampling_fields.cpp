#include "service/sampling_fields.h"

#include <fmt/format.h>

namespace kvik {
namespace {

template <int low, int high>
bool from_to(double value) {
  return value >= low && value <= high;
}

template <int low, int high>
bool above_to(double value) {
  return value > low && value <= high;
}

bool any(double) { return true; }

using Params = SamplingParams;

constexpr SamplingField kFields[] = {
    {"temperature", &Params::temperature, from_to<0, 100>, "a number from 0 to 100",
     "sampling temperature; 0: greedy"},
    {"top_k", &Params::top_k, any, "an integer", "sample among the K most likely tokens; 0: off"},
    {"top_p", &Params::top_p, above_to<0, 1>, "a number above 0, at most 1",
     "sample among the most likely tokens whose probabilities sum to P; 1: off"},
    {"min_p", &Params::min_p, from_to<0, 1>, "a number from 0 to 1",
     "exclude tokens less likely than P times the most likely one; 0: off"},
    {"repetition_penalty", &Params::repetition_penalty, above_to<0, 100>,
     "a number above 0, at most 100",
     "factor that makes tokens of the prompt and the answer less likely; 1: off"},
    {"presence_penalty", &Params::presence_penalty, from_to<-2, 2>, "a number from -2 to 2",
     "subtracted from the logits of tokens that the answer has already; 0: off", false},
    {"frequency_penalty", &Params::frequency_penalty, from_to<-2, 2>, "a number from -2 to 2",
     "subtracted from a token's logit for each time that the answer has it; 0: off", false},
};

}  // namespace

std::span<const SamplingField> sampling_fields() { return kFields; }

Result<void> check_sampling(const SamplingParams& sampling) {
  for (const SamplingField& field : kFields) {
    const double value =
        std::visit([&](auto member) -> double { return sampling.*member; }, field.member);
    if (field.is_within(value)) continue;
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is {}, expected {}", field.name, value, field.range),
                std::string(field.name));
  }
  return {};
}

}  // namespace kvik
