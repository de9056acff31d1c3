#include "format/adapter/gguf_adapter.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "format/adapter/pair_plan.h"
#include "format/quoted.h"

namespace kvik {
namespace {

constexpr std::string_view kHalves[] = {".lora_a", ".lora_b"};

// Indices of the two tensors of each updated matrix, by the name of the matrix.
using Pairs = std::map<std::string_view, std::optional<size_t>[2]>;

Result<void> expect_text(const Metadata& metadata, std::string_view key, std::string_view wanted) {
  TRY_ASSIGN(const auto found, metadata.get_string(key));
  if (found == wanted) return {};
  return fail(ErrorCode::kUnsupported, fmt::format("key '{}' is {}, expected '{}'", key,
                                                   found ? quoted(*found) : "missing", wanted));
}

Result<double> read_alpha(const Metadata& metadata, const ModelConfig& model) {
  TRY(expect_text(metadata, "general.type", "adapter"));
  TRY(expect_text(metadata, "adapter.type", "lora"));
  TRY_ASSIGN(const auto architecture, metadata.get_string("general.architecture"));
  if (architecture != model.architecture) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("key 'general.architecture' is {}, but the model's is '{}': the "
                            "adapter was made for another model",
                            architecture ? quoted(*architecture) : "missing", model.architecture));
  }
  constexpr std::string_view kInvocation = "adapter.alora.invocation_tokens";
  if (metadata.contains(kInvocation)) {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("key '{}' is set: activated LoRA (aLoRA) is not supported", kInvocation));
  }
  TRY_ASSIGN(const auto alpha, metadata.get_float("adapter.lora.alpha"));
  return alpha.value_or(0.0);
}

Result<Pairs> find_pairs(const ModelSource& file) {
  Pairs pairs;
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    const std::string_view name = file.tensors()[i].name;
    const bool is_a = name.ends_with(kHalves[0]);
    if (!is_a && !name.ends_with(kHalves[1])) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("tensor {} is not of a pair, expected names that end in '{}' or '{}'",
                              quoted(name), kHalves[0], kHalves[1]));
    }
    pairs[name.substr(0, name.size() - kHalves[0].size())][is_a ? 0 : 1] = i;
  }
  for (const auto& [name, tensors] : pairs) {
    for (const int half : {0, 1}) {
      if (tensors[half]) continue;
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor {} is missing beside its other half",
                              quoted(fmt::format("{}{}", name, kHalves[half]))));
    }
  }
  return pairs;
}

}  // namespace

Result<std::unique_ptr<AdapterSource>> read_gguf_adapter(std::unique_ptr<ModelSource> file,
                                                         const ModelConfig& model, float factor) {
  TRY_ASSIGN(const double alpha, read_alpha(file->metadata(), model));
  TRY_ASSIGN(const auto base_name, file->metadata().get_string("general.base_model.0.name"));
  TRY_ASSIGN(const Pairs pairs, find_pairs(*file));
  PairPlan plan(*file, model);
  for (const auto& [name, tensors] : pairs) {
    const auto id = tensor_named(name);
    if (!id) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} is not a supported matrix: the adapter was made for another "
                              "model",
                              quoted(name)));
    }
    const FilePair pair{.name = std::string(name),
                        .target = {.tensor = *id, .part = {}},
                        .a = *tensors[0],
                        .b = *tensors[1],
                        .embedding = EmbeddingPair::kGguf};
    TRY_ASSIGN(const uint32_t rank, plan.rank_of(pair));
    const double scale = alpha != 0 ? alpha / rank : 1.0;
    TRY(plan.add(pair, rank, static_cast<float>(scale * factor)));
  }
  std::string label = file->label();
  return plan.finish(std::move(file), std::move(label), base_name.value_or(""));
}

}  // namespace kvik
