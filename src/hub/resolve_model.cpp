#include "hub/resolve_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/printable.h"
#include "base/text/nearest_name.h"
#include "format/synthetic/synthetic.h"
#include "hub/model_name.h"

namespace kvik {
namespace {

// Returns "; …" with a preset that may be meant, or the command that downloads the model.
std::string hint_for_unknown(const std::string& name) {
  std::vector<std::string> known = {"demo"};
  for (const ModelPreset& preset : model_presets())
    known.push_back(fmt::format("synthetic:{}", preset.name));
  if (std::ranges::count(known, "synthetic:" + name) > 0) {
    return fmt::format("; did you mean synthetic:{}, which has random weights?", printable(name));
  }
  const std::string near = did_you_mean(name, known);
  if (!near.empty()) return near;
  const auto parsed = parse_model_name(name, {});
  if (!parsed) return "; kvik pull ORG/REPO:QUANT downloads a model";
  return fmt::format("; kvik pull {} downloads it, if there is one",
                     printable(parsed->pull_argument()));
}

}  // namespace

Result<ResolvedModel> resolve_model(ModelStore& store, const std::string& name) {
  if (is_local_model(name)) return ResolvedModel{name};
  if (const auto stored = store.find(name)) return ResolvedModel{stored->path, stored->name};
  return std::unexpected(unknown_model(name));
}

bool is_local_model(const std::string& name) {
  std::error_code ignored;
  return name == "demo" || name.starts_with("synthetic:") || std::filesystem::exists(name, ignored);
}

bool has_origin(const ModelStore& store, const std::string& name) {
  if (is_local_model(name)) return false;
  const auto parsed = parse_model_name(name, store.options());
  return parsed && parsed->has_origin;
}

Error unknown_model(const std::string& name) {
  return {ErrorCode::kNotFound,
          fmt::format("'{}' is no file or folder, and no stored model (kvik list){}",
                      printable(name), hint_for_unknown(name))};
}

}  // namespace kvik
