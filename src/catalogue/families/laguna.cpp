#include "catalogue/families/laguna.h"

#include <fmt/format.h>

#include <string>
#include <variant>

#include "catalogue/key_reader.h"

namespace kvik::families {

// Files of other programs do not say which gate there is; config_of() finds out.
Result<void> finish_laguna(const KeyReader& keys, ModelConfig& config) {
  constexpr std::string_view kKey = "attention.gating";
  if (!keys.is_text(kKey)) return {};
  TRY_ASSIGN(const std::string kind, keys.word(kKey, ""));
  if (kind == "per-head") return {};
  if (kind != "per-element") {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("'{}' is '{}', expected per-head or per-element", keys.full(kKey), kind));
  }
  for (LayerConfig& layer : config.layers) {
    std::get<AttentionConfig>(layer.mixer).output_gate = OutputGate::kOwn;
  }
  return {};
}

}  // namespace kvik::families
