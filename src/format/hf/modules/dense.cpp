#include "format/hf/modules/dense.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/json/json_object.h"
#include "catalogue/limits.h"
#include "format/arranged_tensors.h"
#include "format/hf/gguf_keys.h"
#include "format/hf/modules/modules.h"
#include "format/hf/tensor_files.h"
#include "format/joined_files.h"
#include "format/quoted.h"
#include "tensor/blocks.h"

namespace kvik::hf {
namespace {

constexpr std::string_view kIdentity = "Identity";
constexpr std::string_view kWeight = "linear.weight";
constexpr size_t kModules = 2;
constexpr size_t kFirstNumber = 2;  // of the modules' names in GGUF files

struct Dimensions {
  uint32_t in = 0, out = 0;
};

// Adds the dimensions that the module's config.json states. Returns them.
Result<Dimensions> read_dimensions(const std::string& folder, const Module& module,
                                   const std::string& name, GgufKeys& keys) {
  TRY_ASSIGN(const auto parsed, read_module_config(folder, module));
  TRY_ASSIGN(const JsonObject config, JsonObject::of(parsed, module.path + "/config.json"));
  TRY_ASSIGN(const uint32_t in, config.count("in_features", kMaxDim));
  TRY_ASSIGN(const uint32_t out, config.count("out_features", kMaxDim));
  TRY_ASSIGN(const bool has_bias, config.flag("bias", true));
  if (has_bias) return config.unexpected_value("bias", "false", ErrorCode::kUnsupported);
  TRY_ASSIGN(const auto activation, config.text("activation_function"));
  if (!activation || !activation->ends_with(kIdentity)) {
    return config.unexpected_value("activation_function", "torch.nn.modules.linear.Identity",
                                   ErrorCode::kUnsupported);
  }
  keys.number(name + "_feat_in", in);
  keys.number(name + "_feat_out", out);
  return Dimensions{in, out};
}

// Returns the module's matrix under its name in a GGUF file.
Result<std::unique_ptr<ModelSource>> open_module(const std::string& folder, const Module& module,
                                                 const std::string& name,
                                                 const Dimensions& dimensions) {
  TRY_ASSIGN(auto source, open_tensor_files(fmt::format("{}/{}", folder, module.path)));
  if (source->tensors().size() != 1 || source->tensors()[0].name != kWeight) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("module {} has {} tensors, expected '{}' only", quoted(module.path),
                            source->tensors().size(), kWeight));
  }
  const TensorInfo& info = source->tensors()[0];
  const std::vector<uint64_t> expected = {dimensions.out, dimensions.in};
  const bool is_float = traits(info.type).block_elements == 1 && can_dequantize(info.type);
  if (info.shape != expected || !is_float) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("tensor '{}' of module {} is {} of the shape [{}], expected floats of "
                            "the shape [{}]",
                            kWeight, quoted(module.path), kvik::name_of(info.type),
                            fmt::join(info.shape, ", "), fmt::join(expected, ", ")));
  }
  ArrangedTensor tensor = unchanged_tensor(*source, 0);
  tensor.info.name = name + ".weight";
  std::vector<ArrangedTensor> renamed;
  renamed.push_back(std::move(tensor));
  arrange(*source, std::move(renamed));
  return source;
}

}  // namespace

Result<std::unique_ptr<ModelSource>> with_dense_modules(const std::string& folder,
                                                        std::unique_ptr<ModelSource> source,
                                                        FolderConfig& config) {
  if (!config.type->has_dense_modules) return source;
  TRY_ASSIGN(std::vector<Module> modules, read_modules(folder));
  const auto first = std::ranges::find(modules, kDenseModule, &Module::kind);
  const auto after_first = std::ranges::subrange(first, modules.end());
  if (std::ranges::count(after_first, kPoolingModule, &Module::kind) > 0) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("modules.json has the module {} before Pooling, expected it after that",
                            quoted(first->path)));
  }
  std::erase_if(modules, [](const Module& module) { return module.kind != kDenseModule; });
  if (modules.empty()) return source;
  if (modules.size() != kModules) {
    return fail(ErrorCode::kUnsupported, fmt::format("modules.json has {} modules Dense, expected "
                                                     "{} or none",
                                                     modules.size(), kModules));
  }
  GgufKeys keys(config.metadata, config.architecture);
  std::vector<std::unique_ptr<ModelSource>> pieces;
  pieces.push_back(std::move(source));
  for (size_t i = 0; i < kModules; ++i) {
    const std::string name = fmt::format("dense_{}", kFirstNumber + i);
    TRY_ASSIGN(const Dimensions dimensions, read_dimensions(folder, modules[i], name, keys));
    TRY_ASSIGN(auto piece, open_module(folder, modules[i], name, dimensions));
    pieces.push_back(std::move(piece));
  }
  return join_files(std::move(pieces));
}

}  // namespace kvik::hf
