#include "main/speculation_flags.h"

#include <fmt/format.h>

#include <charconv>

namespace kvik {

std::string read_speculation(const std::string& text, SpeculationOptions& options) {
  using enum SpeculationOptions::Mode;
  options = {};
  if (text == "auto") return {};
  if (text == "off") {
    options.mode = kOff;
    return {};
  }
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, options.n_max);
  options.mode = kAlways;
  if (error == std::errc() && rest == end && options.n_max >= 1 && options.n_max <= kMaxDraftTokens)
    return {};
  return fmt::format("'{}' is not a mode of speculation; expected auto, off or 1 to {} tokens",
                     text, kMaxDraftTokens);
}

void SpeculationFlags::add_to(Flags& flags) {
  flags.add(
      "Speculative decoding",
      {
          {"--speculate",
           Words{
               .type = "auto|off|N",
               .read = [this](const std::string& text) { return read_speculation(text, options); }},
           "number of draft tokens that a step verifies; never changes the answer. auto: as many "
           "as make decoding faster; N: always up to N (default: auto)"},
          Flag("--draft", &draft,
               "draft model: a small model with the same vocabulary, an EAGLE-3 head, Gemma 4's "
               "assistant or a file of MTP layers; none: no model drafts (default: drafts are "
               "copied from the prompt and earlier answers, or come from the model's MTP head or a "
               "head beside it)")
              .is_model()
              .called("MODEL"),
      });
}

}  // namespace kvik
