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
    {"temperature", &Params::temperature, from_to<0, 100>, "a number from 0 to 100", "0 is greedy"},
    {"top_k", &Params::top_k, any, "a whole number", "draw among the K likeliest (0: off)"},
    {"top_p", &Params::top_p, above_to<0, 1>, "a number above 0, at most 1",
     "draw among the likeliest that make up P"},
    {"min_p", &Params::min_p, from_to<0, 1>, "a number from 0 to 1",
     "leave out what is less than P × the likeliest"},
    {"repetition_penalty", &Params::repetition_penalty, above_to<0, 100>,
     "a number above 0, at most 100", "1 is off"},
    {"presence_penalty", &Params::presence_penalty, from_to<-2, 2>, "a number from -2 to 2",
     "0 is off", false},
    {"frequency_penalty", &Params::frequency_penalty, from_to<-2, 2>, "a number from -2 to 2",
     "0 is off", false},
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
