#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace kvik {

// Values of a prompt template.
struct PromptValues {
  std::string_view system, prompt, suffix;
};

// Renders the `template` of a request of Ollama's API: text with the actions {{ .System }},
// {{ .Prompt }}, {{ .Suffix }} and {{ .Response }}, at which the prompt ends, {{ if .NAME }},
// {{ else }}, {{ end }} and comments. {{- and -}} remove the blanks next to them. Takes time linear
// in the template and the result. Errors: kInvalidArgument, for other actions too.
Result<std::string> render_prompt_template(std::string_view source, const PromptValues& values);

}  // namespace kvik
