#pragma once

#include <string_view>

namespace kvik {

// Both return what to do instead of a word that users of llama.cpp, vLLM and Ollama type out of
// habit and that Kvik does not have; an empty text for an unknown word.
std::string_view advice_on_flag(std::string_view flag);  // with its dashes
std::string_view advice_on_command(std::string_view command);

}  // namespace kvik
