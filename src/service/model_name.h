#pragma once

#include <string_view>

namespace kvik {

// Names of models may end in the tag ":latest", which changes nothing: Ollama's clients add it.

inline std::string_view without_latest_tag(std::string_view name) {
  constexpr std::string_view kTag = ":latest";
  if (name.ends_with(kTag)) name.remove_suffix(kTag.size());
  return name;
}

// Returns whether both are names of one model.
inline bool is_same_model(std::string_view a, std::string_view b) {
  return without_latest_tag(a) == without_latest_tag(b);
}

}  // namespace kvik
