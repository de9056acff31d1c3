#include "format/hf/keys/layer_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kvik::hf {

Result<std::vector<std::string>> layer_words(const JsonObject& config, std::string_view key,
                                             uint32_t n_layers,
                                             const std::vector<std::string_view>& known) {
  TRY_ASSIGN(const std::vector<std::string> words, config.texts(key));
  const bool are_known = std::ranges::all_of(
      words, [&](const std::string& word) { return std::ranges::count(known, word) > 0; });
  if (words.size() == n_layers && are_known) return words;
  return config.unexpected_value(
      key, fmt::format("one of {} for each of {} layers", fmt::join(known, ", "), n_layers),
      ErrorCode::kUnsupported);
}

}  // namespace kvik::hf
