#pragma once

#include <string>
#include <vector>

#include "format/synthetic/synthetic.h"

namespace kvik {

// Returns the small models used by tests, at least one per family: "test-llama", "test-mqa", …
inline std::vector<std::string> test_presets() {
  std::vector<std::string> names;
  for (const ModelPreset& preset : model_presets()) {
    const std::string name(preset.name);
    if (name.starts_with("test-")) names.push_back(name);
  }
  return names;
}

}  // namespace kvik
