#include "format/draft/eagle_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "catalogue/read_eagle.h"
#include "catalogue/tensor_roles.h"
#include "format/draft/joined_head.h"
#include "format/quoted.h"
#include "format/source_config.h"

namespace kvik {
namespace {

using enum TensorRole;

struct EagleTensor {
  std::string_view name;  // in a GGUF file of the head
  TensorRole role;
};
constexpr EagleTensor kTensors[] = {
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

TensorRole role_in(const ModelConfig& model, TensorRole role) {
  if (role != kFfnNorm) return role;
  if (model.is_ffn_norm_post_attention) return kPostAttentionNorm;
  return model.is_ffn_norm_bare ? kBareFfnNorm : kFfnNorm;
}

// Gives the tensors of the head the names that they have in the model, and reads the tokens of its
// output projection.
Result<void> take_tensors(ModelSource& head, const ModelConfig& model, Metadata& keys) {
  std::vector<TensorId> ids;
  std::vector<size_t> indices;
  for (size_t i = 0; i < head.tensors().size(); ++i) {
    const std::string& name = head.tensors()[i].name;
    if (name == kTokens) {
      TRY_ASSIGN(std::vector<int64_t> tokens, read_tokens(head, i));
      keys.insert(kEagleTokens, std::move(tokens));
      continue;
    }
    const auto* known = std::ranges::find(kTensors, name, &EagleTensor::name);
    if (known == std::end(kTensors)) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("tensor {} is not supported in an EAGLE-3 head", quoted(name)));
    }
    ids.push_back({role_in(model, known->role), model.n_layers});
    indices.push_back(i);
  }
  rename_tensors(head, ids, indices);
  return {};
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
                                                     std::unique_ptr<ModelSource> source,
                                                     const HeadLimits& limits) {
  const std::string label = source->label();
  const auto add = [&]() -> Result<std::unique_ptr<ModelSource>> {
    TRY_ASSIGN(const ModelConfig plain, config_of(*model));
    DraftHead head{.source = std::move(source),
                   .config = {},
                   .keys = {},
                   .prefix = fmt::format("{}.", kEagleArchitecture),
                   .tensors = {}};
    head.keys = head.source->metadata();
    TRY(take_tensors(*head.source, plain, head.keys));
    TRY_ASSIGN(head.config, config_with(*model, *head.source, head.keys));
    for (const auto& [name, role] : kTensors) {
      head.tensors.push_back({{role_in(plain, role), plain.n_layers}, std::string(name)});
    }
    return join_head(model, std::move(head), limits);
  };
  auto joined = add();
  if (joined) return joined;
  return fail(joined.error().code,
              fmt::format("'{}' as EAGLE-3 head: {}", Printable(label), joined.error().message));
}

}  // namespace kvik
