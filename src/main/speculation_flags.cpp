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
  const auto [rest, error] = std::from_chars(text.data(), end, options.n_most);
  options.mode = kAlways;
  if (error == std::errc() && rest == end && options.n_most >= 1 && options.n_most <= kMostGuesses)
    return {};
  return fmt::format("'{}' is no way to speculate; expected auto, off or 1 to {} tokens", text,
                     kMostGuesses);
}

void SpeculationFlags::add_to(Flags& flags) {
  flags.add({
      {"--speculate",
       Words{.type = "auto|off|N",
             .read = [this](const std::string& text) { return read_speculation(text, options); }},
       "draft next tokens and compute them in the same step; the answer stays the same. auto: "
       "as many as make the answer faster; N: always up to N (default: auto)"},
      Flag("--draft", &draft,
           "a small model with the same vocabulary that guesses next tokens (default: what was "
           "said before, and the model's own guesser where its file has one)")
          .called("MODEL"),
  });
}

}  // namespace kvik
