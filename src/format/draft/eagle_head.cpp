#include "format/draft/eagle_head.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catalogue/read_eagle.h"
#include "catalogue/tensor_roles.h"
#include "format/arranged_tensors.h"
#include "format/hf/tensor_shapes.h"
#include "format/joined_files.h"
#include "format/quoted.h"
#include "format/source_config.h"

namespace kvik {
namespace {

using enum TensorRole;

struct HeadTensor {
  std::string_view name;  // in a GGUF file of the head
  TensorRole role;
};
constexpr HeadTensor kTensors[] = {
    {"token_embd.weight", kMtpEmbedding},
    {"output.weight", kMtpHead},
    {"output_norm.weight", kMtpOutputNorm},
    {"fc.weight", kMtpProjection},
    {"blk.0.attn_norm.weight", kMtpEmbeddingNorm},
    {"blk.0.attn_norm_2.weight", kMtpHiddenNorm},
    {"blk.0.attn_q.weight", kQ},
    {"blk.0.attn_k.weight", kK},
    {"blk.0.attn_v.weight", kV},
    {"blk.0.attn_q.bias", kQBias},
    {"blk.0.attn_k.bias", kKBias},
    {"blk.0.attn_v.bias", kVBias},
    {"blk.0.attn_output.weight", kAttentionOutput},
    {"blk.0.ffn_norm.weight", kFfnNorm},
    {"blk.0.ffn_gate.weight", kGate},
    {"blk.0.ffn_up.weight", kUp},
    {"blk.0.ffn_down.weight", kDown},
};
constexpr std::string_view kTokens = "d2t";

// Returns the token of each row of the output projection.
Result<std::vector<int64_t>> read_tokens(ModelSource& head, size_t index) {
  const TensorInfo& info = head.tensors()[index];
  if (info.type != ElementType::kI64 || info.shape.size() != 1) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("tensor '{}' is not a list of 64-bit integers", info.name));
  }
  std::vector<int64_t> tokens(info.shape[0]);
  TRY_ASSIGN(const auto bytes, head.read(index));
  std::memcpy(tokens.data(), bytes.data(), tokens.size() * sizeof(int64_t));
  head.release(index);
  if (!head.metadata().contains(kEagleOffsets)) return tokens;
  for (size_t row = 0; row < tokens.size(); ++row) {
    // Unsigned, because the file may have any number; the tokens are checked later.
    tokens[row] = static_cast<int64_t>(static_cast<uint64_t>(tokens[row]) + row);
  }
  return tokens;
}

// Gives the tensors of the head the names that they have in the model, and reads the tokens of its
// output projection.
Result<void> rename_tensors(ModelSource& head, const ModelConfig& model, Metadata& keys) {
  std::vector<ArrangedTensor> arranged;
  for (size_t i = 0; i < head.tensors().size(); ++i) {
    const std::string& name = head.tensors()[i].name;
    if (name == kTokens) {
      TRY_ASSIGN(std::vector<int64_t> tokens, read_tokens(head, i));
      keys.insert(kEagleTokens, std::move(tokens));
      continue;
    }
    const auto* known = std::ranges::find(kTensors, name, &HeadTensor::name);
    if (known == std::end(kTensors)) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("tensor {} is not supported in an EAGLE-3 head", quoted(name)));
    }
    TensorRole role = known->role;
    if (role == kFfnNorm && model.is_ffn_norm_post_attention) role = kPostAttentionNorm;
    if (role == kFfnNorm && model.is_ffn_norm_bare) role = kBareFfnNorm;
    ArrangedTensor tensor = unchanged_tensor(head, i);
    tensor.info.name = name_of(TensorId{role, model.n_layers});
    if (is_list(kind_of(role))) hf::store_floats(tensor, Arrangement::kFloats);
    arranged.push_back(std::move(tensor));
  }
  arrange(head, std::move(arranged));
  return {};
}

// Checks that the head has the tensors of its layer, in the right shapes.
Result<void> check_tensors(const ModelSource& head, const ModelConfig& joined) {
  const TensorTable table(joined);
  for (const TensorSpec& spec : table.all()) {
    if (!is_of_layer(spec.id.role) || spec.id.layer != joined.n_layers) continue;
    const auto found = head.find(name_of(spec.id));
    if (!found && spec.is_optional) continue;
    const auto* known = std::ranges::find(kTensors, spec.id.role, &HeadTensor::role);
    const std::string_view name =
        known == std::end(kTensors) ? "blk.0.ffn_norm.weight" : known->name;
    if (!found) {
      return fail(ErrorCode::kCorrupt, fmt::format("tensor '{}' of the head is missing", name));
    }
    const std::vector<uint64_t>& shape = head.tensors()[*found].shape;
    if (shape == spec.shape) continue;
    return fail(ErrorCode::kCorrupt,
                fmt::format("tensor '{}' of the head has the shape [{}], expected [{}]", name,
                            fmt::join(shape, ", "), fmt::join(spec.shape, ", ")));
  }
  return {};
}

// Removes the tensors of the model's own MTP layers: the head's tensors have the same names.
void leave_out_mtp_layers(ModelSource& source, const ModelConfig& config) {
  std::vector<ArrangedTensor> rest;
  for (size_t i = 0; i < source.tensors().size(); ++i) {
    const auto id = tensor_named(source.tensors()[i].name);
    const bool is_of_mtp = id && is_of_layer(id->role) && id->layer >= config.n_layers;
    if (!is_of_mtp) rest.push_back(unchanged_tensor(source, i));
  }
  if (rest.size() < source.tensors().size()) arrange(source, std::move(rest));
}

Result<ModelConfig> config_with(const ModelSource& model, const ModelSource& head,
                                const Metadata& keys) {
  ModelConfig config;
  TRY_ASSIGN(config, config_of(model));
  config = without_mtp_head(std::move(config));
  TRY(add_eagle_head(keys, config));
  const auto has = [&](TensorRole role) {
    return head.find(name_of(TensorId{role, config.n_layers})).has_value();
  };
  config.has_mtp_embedding = has(kMtpEmbedding);
  config.has_mtp_output = has(kMtpHead);
  if (config.eagle->tokens && !config.has_mtp_output) {
    return fail(ErrorCode::kCorrupt,
                "the head has tensor 'd2t', but no output projection ('output.weight')");
  }
  return config;
}

}  // namespace

bool is_eagle_head(const ModelSource& source) {
  const auto architecture = source.metadata().get_string("general.architecture");
  return architecture && *architecture == kEagleArchitecture;
}

Result<std::unique_ptr<ModelSource>> with_eagle_head(std::unique_ptr<ModelSource>& model,
                                                     std::unique_ptr<ModelSource> head) {
  const auto add = [&]() -> Result<std::unique_ptr<ModelSource>> {
    TRY_ASSIGN(const ModelConfig plain, config_of(*model));
    Metadata keys = head->metadata();
    TRY(rename_tensors(*head, plain, keys));
    TRY_ASSIGN(const ModelConfig config, config_with(*model, *head, keys));
    TRY(check_tensors(*head, config));
    Metadata all = model->metadata();
    const std::string prefix = fmt::format("{}.", kEagleArchitecture);
    for (const auto& [key, value] : keys.values()) {
      if (key.starts_with(prefix)) all.replace(key, value);
    }
    std::string label = model->label();
    leave_out_mtp_layers(*model, plain);
    std::vector<std::unique_ptr<ModelSource>> pieces;
    pieces.push_back(std::move(model));
    pieces.push_back(std::move(head));
    TRY_ASSIGN(auto joined, join_files(std::move(pieces)));
    joined->describe(std::move(label), std::move(all));
    return joined;
  };
  const std::string label = head->label();
  auto joined = add();
  if (joined) return joined;
  return fail(joined.error().code,
              fmt::format("{} as EAGLE-3 head: {}", quoted(label), joined.error().message));
}

}  // namespace kvik
