#pragma once

#include <string_view>

namespace kvik {

// What users of llama.cpp, vLLM and Ollama type out of habit and Kvik does not have: returns what
// to do instead, or an empty text for an unknown word.
std::string_view advice_on_flag(std::string_view flag);  // with its dashes
std::string_view advice_on_command(std::string_view command);

}  // namespace kvik
