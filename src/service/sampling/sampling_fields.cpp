#include "service/sampling/sampling_fields.h"

#include <fmt/format.h>

#include <charconv>
#include <type_traits>

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

// Return the number that one or two member pointers lead to.
template <auto member>
constexpr auto number() {
  using Number = std::decay_t<decltype(Params{}.*member)>;
  return SamplingNumber<Number>{[](Params& params) -> Number& { return params.*member; },
                                [](const Params& params) -> Number { return params.*member; }};
}
template <auto part, auto member>
constexpr auto number() {
  using Number = std::decay_t<decltype((Params{}.*part).*member)>;
  return SamplingNumber<Number>{
      [](Params& params) -> Number& { return params.*part.*member; },
      [](const Params& params) -> Number { return params.*part.*member; }};
}

constexpr SamplingField kFields[] = {
    {"temperature", number<&Params::temperature>(), from_to<0, 100>, "a number from 0 to 100",
     "sampling temperature; 0: greedy"},
    {"top_k", number<&Params::top_k>(), any, "an integer of at least -1",
     "sample among the K most likely tokens; 0: off", true, 0},
    {"top_p", number<&Params::top_p>(), above_to<0, 1>, "a number above 0, at most 1",
     "sample among the most likely tokens whose probabilities sum to P; 1: off"},
    {"min_p", number<&Params::min_p>(), from_to<0, 1>, "a number from 0 to 1",
     "exclude tokens less likely than P times the most likely one; 0: off"},
    {"typical_p", number<&Params::typical_p>(), from_to<0, 1>, "a number from 0 to 1",
     "sample among the tokens of the most typical surprise whose probabilities sum to P; 1: off"},
    {"top_n_sigma", number<&Params::top_n_sigma>(), from_to<-1, 100>, "a number from -1 to 100",
     "exclude logits more than N standard deviations below the largest one; 0 and below: off"},
    {"repetition_penalty", number<&Params::repetition_penalty>(), above_to<0, 100>,
     "a number above 0, at most 100",
     "factor that makes tokens of the prompt and the answer less likely; 1: off"},
    {"presence_penalty", number<&Params::presence_penalty>(), from_to<-2, 2>,
     "a number from -2 to 2",
     "subtracted from the logits of tokens that the answer has already; 0: off", false},
    {"frequency_penalty", number<&Params::frequency_penalty>(), from_to<-2, 2>,
     "a number from -2 to 2",
     "subtracted from a token's logit for each time that the answer has it; 0: off", false},
    {"repeat_last_n", number<&Params::penalty_last_n>(), any, "an integer of at least -1",
     "number of newest tokens, of prompt and answer, that the penalties count; 0: none; -1: as "
     "each penalty's help says (default)",
     false, UINT32_MAX},
    {"xtc_probability", number<&Params::xtc, &XtcParams::probability>(), from_to<0, 1>,
     "a number from 0 to 1",
     "probability of excluding all tokens above the XTC threshold but the least likely one; 0: "
     "off"},
    {"xtc_threshold", number<&Params::xtc, &XtcParams::threshold>(), from_to<0, 1>,
     "a number from 0 to 1", "probability of a token that XTC may exclude; above 0.5: off"},
    {"dynatemp_range", number<&Params::dynamic_temperature, &DynamicTemperature::range>(),
     from_to<0, 100>, "a number from 0 to 100",
     "the temperature varies with the entropy by up to this much; 0: off"},
    {"dynatemp_exponent", number<&Params::dynamic_temperature, &DynamicTemperature::exponent>(),
     from_to<0, 100>, "a number from 0 to 100",
     "exponent of the normalized entropy that decides the dynamic temperature"},
    {"mirostat", number<&Params::mirostat, &MirostatParams::version>(), from_to<0, 2>, "0, 1 or 2",
     "Mirostat version 1 or 2 instead of all samplers but the temperature; 0: off"},
    {"mirostat_tau", number<&Params::mirostat, &MirostatParams::tau>(), from_to<0, 100>,
     "a number from 0 to 100", "Mirostat's target surprise in bits"},
    {"mirostat_eta", number<&Params::mirostat, &MirostatParams::eta>(), from_to<0, 100>,
     "a number from 0 to 100", "Mirostat's learning rate"},
    {"dry_multiplier", number<&Params::dry, &DryParams::multiplier>(), from_to<0, 100>,
     "a number from 0 to 100",
     "DRY: scale of the penalty of tokens that would continue a repetition; 0: off"},
    {"dry_base", number<&Params::dry, &DryParams::base>(), from_to<1, 100>,
     "a number from 1 to 100", "DRY: factor of the penalty for each further repeated token"},
    {"dry_allowed_length", number<&Params::dry, &DryParams::allowed_length>(), any, "an integer",
     "DRY: length of the repetitions that may be continued for the smallest penalty"},
    {"dry_penalty_last_n", number<&Params::dry, &DryParams::last_n>(), any,
     "an integer of at least -1",
     "DRY: number of newest tokens, of prompt and answer, that are searched; -1: all (default)",
     false, UINT32_MAX},
};

}  // namespace

std::span<const SamplingField> sampling_fields() { return kFields; }

bool read_field(const SamplingField& field, std::string_view text, SamplingParams& params) {
  return std::visit(
      [&]<class Number>(const SamplingNumber<Number>& number) {
        if (text == "-1" && field.minus_one) {
          number.in(params) = static_cast<Number>(*field.minus_one);
          return true;
        }
        const char* const end = text.data() + text.size();
        const auto [rest, error] = std::from_chars(text.data(), end, number.in(params));
        return error == std::errc() && rest == end;
      },
      field.number);
}

std::variant<float, uint32_t, int> value_of(const SamplingField& field,
                                            const SamplingParams& params) {
  return std::visit(
      [&](const auto& number) -> std::variant<float, uint32_t, int> {
        const auto value = number.of(params);
        if (field.minus_one == UINT32_MAX && value == static_cast<decltype(value)>(UINT32_MAX))
          return -1;
        return value;
      },
      field.number);
}

Result<void> check_sampling(const SamplingParams& sampling) {
  for (const SamplingField& field : kFields) {
    const double value =
        std::visit([&](const auto& number) -> double { return number.of(sampling); }, field.number);
    if (field.is_within(value)) continue;
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is {}, expected {}", field.name, value, field.range),
                std::string(field.name));
  }
  return {};
}

}  // namespace kvik
