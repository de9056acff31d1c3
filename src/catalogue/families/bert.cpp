#include "catalogue/families/bert.h"

#include <fmt/format.h>

#include "catalogue/key_reader.h"

namespace kvik::families {

// Two of three layers attend to a window around each token, and have RoPE of their own. The file
// states the width of the window without the token itself.
Result<void> finish_modern_bert(const KeyReader& keys, ModelConfig& c) {
  TRY_ASSIGN(const uint32_t every,
             keys.count("attention.sliding_window_pattern", c.n_layers + 3, 3));
  if (every != 3) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' is {}, expected 3", keys.full("attention.sliding_window_pattern"),
                            every));
  }
  RopeConfig local = c.ropes.front();
  TRY_ASSIGN(local.base, keys.positive("rope.freq_base_swa", kLocalRopeBase));
  c.ropes.push_back(local);
  for (LayerConfig& layer : c.layers) {
    auto& a = std::get<AttentionConfig>(layer.mixer);
    if (a.window == 0) continue;
    a.window = a.window / 2 * 2 + 1;
    a.rope = 1;
  }
  return {};
}

}  // namespace kvik::families
