#pragma once

#include <string_view>

namespace kvik {

// Return advice for a flag or command of llama.cpp, vLLM or Ollama that Kvik does not have; an
// empty text for an unknown word.
std::string_view advice_on_flag(std::string_view flag);  // including the dashes
std::string_view advice_on_command(std::string_view command);

}  // namespace kvik
