#include "format/draft/assistant_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "catalogue/read_assistant.h"
#include "catalogue/tensor_roles.h"
#include "format/draft/joined_head.h"
#include "format/quoted.h"
#include "format/source_config.h"

namespace kvik {
namespace {

using enum TensorRole;

struct TopTensor {
  std::string_view name;  // in a GGUF file of the assistant
  TensorRole role;
};
constexpr TopTensor kTop[] = {
    {"token_embd.weight", kMtpHead},
    {"output_norm.weight", kMtpOutputNorm},
    {"nextn.pre_projection.weight", kMtpProjection},
    {"nextn.post_projection.weight", kMtpPost},
};
constexpr TensorRole kOfLayer[] = {
    kAttentionNorm, kQ,  kQNorm, kAttentionOutput, kPostAttentionNorm, kFfnNorm,
    kGate,          kUp, kDown,  kPostFfnNorm,     kLayerScale};
// Divisors of RoPE, which are the model's, and the clusters of tokens with which small assistants
// may compute a part of the logits.
constexpr std::string_view kUnused[] = {"rope_freqs.", "masked_embd"};

std::optional<TensorId> id_of(std::string_view name, uint32_t n_layers) {
  const auto* top = std::ranges::find(kTop, name, &TopTensor::name);
  if (top != std::end(kTop)) return TensorId{top->role, n_layers};
  auto id = tensor_named(name);
  if (!id || std::ranges::find(kOfLayer, id->role) == std::end(kOfLayer)) return std::nullopt;
  id->layer += n_layers;
  return id;
}

Result<void> take_assistant_tensors(ModelSource& source, uint32_t n_layers) {
  std::vector<TensorId> ids;
  std::vector<size_t> indices;
  for (size_t i = 0; i < source.tensors().size(); ++i) {
    const std::string& name = source.tensors()[i].name;
    const bool is_unused = std::ranges::any_of(
        kUnused, [&](std::string_view prefix) { return name.starts_with(prefix); });
    if (is_unused) continue;
    const auto id = id_of(name, n_layers);
    if (!id) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("tensor {} is not supported in an assistant", quoted(name)));
    }
    ids.push_back(*id);
    indices.push_back(i);
  }
  rename_tensors(source, ids, indices);
  return {};
}

}  // namespace

bool is_assistant(const ModelSource& source) {
  const auto architecture = source.metadata().get_string("general.architecture");
  return architecture && *architecture == kAssistantArchitecture;
}

Result<std::unique_ptr<ModelSource>> with_assistant(std::unique_ptr<ModelSource>& model,
                                                    std::unique_ptr<ModelSource> source,
                                                    const HeadLimits& limits) {
  const std::string label = source->label();
  const auto add = [&]() -> Result<std::unique_ptr<ModelSource>> {
    DraftHead head{.source = std::move(source),
                   .config = {},
                   .keys = {},
                   .prefix = fmt::format("{}.", kAssistantArchitecture),
                   .tensors = {}};
    head.keys = head.source->metadata();
    TRY_ASSIGN(ModelConfig config, config_of(*model));
    head.config = without_mtp_head(std::move(config));
    const uint32_t n_layers = head.config.n_layers;
    TRY(add_assistant(head.keys, head.config));
    TRY(take_assistant_tensors(*head.source, n_layers));
    for (const auto& [name, role] : kTop) {
      head.tensors.push_back({{role, n_layers}, std::string(name)});
    }
    for (uint32_t layer = 0; layer < head.config.n_draft_layers(); ++layer) {
      for (const TensorRole role : kOfLayer) {
        head.tensors.push_back({{role, n_layers + layer}, name_of(TensorId{role, layer})});
      }
    }
    return join_head(model, std::move(head), limits);
  };
  auto joined = add();
  if (joined) return joined;
  return fail(joined.error().code,
              fmt::format("'{}' as assistant: {}", Printable(label), joined.error().message));
}

}  // namespace kvik
