#include "format/hf/windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catalogue/limits.h"
#include "format/hf/keys/config_file.h"
#include "format/quoted.h"

namespace kvik::hf {
namespace {

// Returns whether all layers have sliding windows, as "use_sliding_window" and "max_window_layers"
// (the first layer with a window) say. Errors: kUnsupported if only some layers have windows.
Result<bool> has_sliding_window(const JsonObject& config, uint32_t n_layers) {
  TRY_ASSIGN(const auto uses, config.flag("use_sliding_window"));
  if (!uses.value_or(false)) return false;
  TRY_ASSIGN(const auto n_without, config.number("max_window_layers"));
  if (!n_without || *n_without == 0) return true;
  if (*n_without >= n_layers) return false;
  return config.unexpected_value("max_window_layers",
                                 fmt::format("0 or at least the {} layers", n_layers),
                                 ErrorCode::kUnsupported);
}

Result<void> check_layer_types(const JsonObject& config, const FamilyFolder& of, uint32_t n_layers,
                               bool has_windows) {
  TRY_ASSIGN(const std::vector<std::string> types, config.texts("layer_types"));
  if (types.empty()) return {};
  if (types.size() != n_layers) {
    return config.unexpected_value("layer_types",
                                   fmt::format("one for each of {} layers", n_layers));
  }
  const std::string_view windowed =
      of.type->window == FolderWindow::kChunked ? "chunked_attention" : "sliding_attention";
  for (uint32_t i = 0; i < n_layers; ++i) {
    const std::string_view expected =
        has_windows && of.family->attention.is_windowed(i) ? windowed : "full_attention";
    if (types[i] == expected) continue;
    return fail(ErrorCode::kUnsupported,
                fmt::format("{}: 'layer_types' has {} as layer {}, expected {} in a model of type "
                            "{}",
                            kConfigFile, quoted(types[i]), i, expected, of.type->model_type));
  }
  return {};
}

// Reads which layers have the window of "sliding_window" from a list of layers. Without one they
// are those of the family.
Result<void> read_listed_windows(const JsonObject& config, const Family& family, uint32_t n_layers,
                                 GgufKeys& keys) {
  TRY_ASSIGN(const auto stated, config.number("sliding_window"));
  TRY_ASSIGN(const auto n_earlier, config.number("sliding_window_size"));  // without the own token
  const uint64_t window = n_earlier ? *n_earlier + 1 : stated.value_or(0);
  if (window == 0) return {};
  if (window > kMaxContext) {
    return config.unexpected_value(n_earlier ? "sliding_window_size" : "sliding_window",
                                   fmt::format("at most {}", kMaxContext));
  }
  TRY_ASSIGN(std::vector<bool> is_windowed, listed_windows(config, family, n_layers));
  if (is_windowed.empty()) {
    keys.number("attention.sliding_window", window);
    return {};
  }
  if (std::ranges::count(is_windowed, true) == 0) return {};
  keys.number("attention.sliding_window", window);
  keys.flags("attention.sliding_window_pattern", std::move(is_windowed));
  return {};
}

// Checks that the layers without RoPE are those of the family.
Result<void> check_unrotated(const JsonObject& config, const Family& family, uint32_t n_layers) {
  const uint32_t every = family.attention.unrotated_every;
  if (every == 0 || !config.find("no_rope_layers")) return {};
  TRY_ASSIGN(const std::vector<uint64_t> is_rotated, config.numbers("no_rope_layers"));
  bool is_usual = is_rotated.size() == n_layers;
  for (uint32_t i = 0; is_usual && i < n_layers; ++i) {
    is_usual = (is_rotated[i] != 0) == family.attention.is_rotated(i, false);
  }
  if (is_usual) return {};
  return config.unexpected_value("no_rope_layers",
                                 fmt::format("0 for every layer whose number, counted from 1, is a "
                                             "multiple of {}, and 1 for the others",
                                             every),
                                 ErrorCode::kUnsupported);
}

// Checks the RoPE base of each layer, of which 0 means none: layers with a window must have that of
// the model, and the others none (Muse Glimmer).
Result<void> check_layer_bases(const JsonObject& config, uint32_t n_layers) {
  TRY_ASSIGN(const std::vector<double> bases, config.reals("layer_rope_theta"));
  if (bases.empty()) return {};
  TRY_ASSIGN(const std::vector<std::string> types, config.texts("layer_types"));
  TRY_ASSIGN(const auto parameters, config.object("rope_parameters"));
  double usual = 10000;
  if (parameters) {
    TRY_ASSIGN(const auto stated, parameters->real("rope_theta"));
    usual = stated.value_or(usual);
  }
  bool is_usual = bases.size() == n_layers && types.size() == n_layers;
  for (uint32_t i = 0; is_usual && i < n_layers; ++i) {
    is_usual = bases[i] == (types[i] == "sliding_attention" ? usual : 0);
  }
  if (is_usual) return {};
  return config.unexpected_value(
      "layer_rope_theta",
      fmt::format("{} for each layer of sliding_attention, and 0 for the others", usual),
      ErrorCode::kUnsupported);
}

}  // namespace

Result<std::vector<bool>> listed_windows(const JsonObject& config, const Family& family,
                                         uint32_t n_layers) {
  std::vector<bool> is_windowed;
  TRY_ASSIGN(const std::vector<uint64_t> numbers, config.numbers("hybrid_layer_pattern"));
  for (const uint64_t number : numbers) is_windowed.push_back(number != 0);
  const char* key = numbers.empty() ? "layer_types" : "hybrid_layer_pattern";
  TRY_ASSIGN(const std::vector<std::string> types, config.texts("layer_types"));
  if (numbers.empty()) {
    for (const std::string& type : types) {
      is_windowed.push_back(type == "sliding_attention");
      const bool is_conv = family.recurrence.kind == Recurrence::kShortConv && type == "conv";
      if (is_windowed.back() || is_conv || type == "full_attention") continue;
      return config.unexpected_value("layer_types", "sliding_attention or full_attention for each",
                                     ErrorCode::kUnsupported);
    }
  }
  if (is_windowed.empty() || is_windowed.size() == n_layers) return is_windowed;
  return config.unexpected_value(key, fmt::format("one for each of {} layers", n_layers));
}

Result<void> read_windows(const JsonObject& config, const FamilyFolder& of, uint32_t n_layers,
                          GgufKeys& keys) {
  TRY(check_unrotated(config, *of.family, n_layers));
  TRY(check_layer_bases(config, n_layers));
  if (of.type->window == FolderWindow::kNone) return {};
  if (of.type->window == FolderWindow::kListed) {
    return read_listed_windows(config, *of.family, n_layers, keys);
  }
  const bool is_chunked = of.type->window == FolderWindow::kChunked;
  const char* window_key = is_chunked ? "attention_chunk_size" : "sliding_window";
  TRY_ASSIGN(const auto window, config.number(window_key));
  bool has_windows = window.value_or(0) > 0;
  if (has_windows && of.type->window == FolderWindow::kIfEnabled) {
    TRY_ASSIGN(has_windows, has_sliding_window(config, n_layers));
  }
  for (const char* key : {"sliding_window_pattern", "_sliding_window_pattern"}) {
    TRY_ASSIGN(const auto pattern, config.number(key));
    const uint32_t expected = of.family->attention.global_every;
    if (pattern && expected > 1 && *pattern != expected) {
      return config.unexpected_value(key, fmt::format("{}", expected), ErrorCode::kUnsupported);
    }
  }
  if (!of.family->has_layer_kinds) TRY(check_layer_types(config, of, n_layers, has_windows));
  if (!has_windows && is_chunked) keys.number("attention.sliding_window", 0);
  if (!has_windows) return {};
  if (*window > kMaxContext) {
    return config.unexpected_value(window_key, fmt::format("at most {}", kMaxContext));
  }
  keys.number("attention.sliding_window", *window);
  return {};
}

}  // namespace kvik::hf
