#include "format/adapter/adapter_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "format/adapter/gguf_adapter.h"
#include "format/adapter/peft_adapter.h"
#include "format/gguf/gguf.h"
#include "format/hf/tensor_files.h"
#include "format/quoted.h"
#include "format/safetensors.h"

namespace kvik {
namespace {

constexpr size_t kMaxConfigBytes = size_t{1} << 20;
constexpr float kMaxScale = 1000.0f;

std::string config_file(const std::string& folder) {
  return fmt::format("{}/adapter_config.json", folder);
}
std::string tensor_file(const std::string& folder) {
  return fmt::format("{}/adapter_model.safetensors", folder);
}

// Returns the error message for a folder without adapter_config.json. It names the adapters in the
// sub-folders, because PEFT saves several adapters of a model as sub-folders of one folder.
std::string no_config(const std::string& path) {
  constexpr size_t kMaxNames = 8;
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(path, ignored)) {
    if (!std::filesystem::exists(config_file(entry.path().string()), ignored)) continue;
    names.push_back(quoted(entry.path().filename().string()));
  }
  if (names.empty()) return "there is no adapter_config.json, expected a folder of PEFT";
  std::ranges::sort(names);
  if (names.size() > kMaxNames) names.resize(kMaxNames);
  return fmt::format("there is no adapter_config.json, expected one of the adapters in it: {}",
                     fmt::join(names, ", "));
}

Result<std::unique_ptr<AdapterSource>> open_peft(const std::string& path, const ModelConfig& model,
                                                 float factor) {
  TRY_ASSIGN(const auto json, hf::read_text_file(config_file(path), kMaxConfigBytes));
  if (!json) return fail(ErrorCode::kNotFound, no_config(path));
  TRY_ASSIGN(const PeftConfig config, read_peft_config(*json));
  TRY_ASSIGN(auto tensors, open_safetensors(tensor_file(path)));
  return read_peft_adapter(config, std::move(tensors), path, model, factor);
}

Result<std::unique_ptr<AdapterSource>> open(const std::string& path, const ModelConfig& model,
                                            float factor) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return open_peft(path, model, factor);
  TRY_ASSIGN(auto file, open_gguf(path));
  return read_gguf_adapter(std::move(file), model, factor);
}

}  // namespace

bool needs_base(const AdapterSource& source) {
  return std::ranges::any_of(source.pairs(), &AdapterPair::has_magnitudes);
}

Result<std::unique_ptr<AdapterSource>> open_adapter(const std::string& path,
                                                    const ModelConfig& model, float factor) {
  auto source = open(path, model, factor);
  if (source || source.error().message.starts_with('\'')) return source;
  return fail(source.error().code, fmt::format("'{}': {}", path, source.error().message));
}

std::vector<std::string> adapter_files(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return {path};
  return {config_file(path), tensor_file(path)};
}

Result<AdapterSpec> parse_adapter_spec(const std::string& text) {
  AdapterSpec spec{.path = text};
  const size_t colon = text.rfind(':');
  if (colon != std::string::npos) {
    float scale = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, scale);
    if (error != std::errc::invalid_argument && rest == end) {
      if (error != std::errc() || !(std::abs(scale) <= kMaxScale)) {
        return fail(ErrorCode::kInvalidArgument,
                    fmt::format("the adapter '{}' has the scale {}, expected one from -{} to {}",
                                text, text.substr(colon + 1), kMaxScale, kMaxScale));
      }
      spec = {.path = text.substr(0, colon), .scale = scale};
    }
  }
  if (spec.path.contains('\0')) {  // the system would open the path before the NUL
    return fail(ErrorCode::kInvalidArgument, "the path of the adapter contains a NUL byte");
  }
  if (!spec.path.empty()) return spec;
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("the adapter '{}' has no path, expected PATH or PATH:SCALE", text));
}

}  // namespace kvik
