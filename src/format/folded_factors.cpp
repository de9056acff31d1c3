#include "format/folded_factors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "catalogue/tensor_roles.h"
#include "format/adapter/base_rows.h"
#include "format/source_config.h"

namespace kvik {
namespace {

using enum TensorRole;

// Number of values that are converted at a time.
constexpr uint64_t kChunkFloats = uint64_t{4} << 20;
constexpr const char* kFactorKeys[] = {
    "embedding_scale", "logit_scale",   "attention.scale",         "attention.value_scale",
    "ssm.in_scales",   "ssm.out_scale", "feed_forward.gate_scale", "feed_forward.scale"};

// Factors of a tensor's rows: each applies to the next n_rows.
struct RowFactor {
  uint64_t n_rows;
  float factor;
};
using RowFactors = std::map<std::string, std::vector<RowFactor>>;

void add_layer(const LayerConfig& layer, uint32_t i, RowFactors& factors) {
  const AttentionConfig& a = layer.attention();
  const StateSpaceConfig& s = *layer.beside;
  const ActivationParameters& mlp = std::get<MlpConfig>(layer.feed_forward).activation;
  const auto whole = [&](TensorRole role, float factor) {
    factors[name_of(TensorId{role, i})] = {{UINT64_MAX, factor}};
  };
  whole(kK, a.scale * std::sqrt(static_cast<float>(a.head_dim)));
  whole(kV, a.value_scale);
  whole(kStateOutput, s.out_scale);
  whole(kGate, mlp.gate_scale);
  whole(kDown, mlp.scale);
  auto& in = factors[name_of(TensorId{kSpaceIn, i})];
  const auto widths = s.in_widths();
  for (size_t part = 0; part < widths.size(); ++part) {
    in.push_back({widths[part], s.in_scales[part]});
  }
}

// Returns the factors of all tensors, by their names.
RowFactors factors_of(const ModelConfig& config) {
  RowFactors factors;
  factors[name_of(TensorId{kEmbedding})] = {{UINT64_MAX, config.embedding_scale}};
  factors[name_of(TensorId{kHead})] = {{UINT64_MAX, config.logit_scale}};
  for (uint32_t i = 0; i < config.n_layers; ++i) add_layer(config.layers[i], i, factors);
  return factors;
}

class FoldedTensors final : public TensorTransform {
 public:
  FoldedTensors(TensorSource& inputs, RowFactors factors)
      : TensorTransform(inputs, outputs_of(inputs, factors)), factors_(std::move(factors)) {}

  Result<void> make(size_t index, Range, Made& made) override {
    const TensorInfo& out = info(index);
    const uint64_t n_cols = out.shape.back();
    const uint64_t n_rows = out.n_elements() / n_cols;
    auto* const values = reinterpret_cast<float*>(made.allocate(0, out.n_bytes));
    const uint64_t n_at_once = std::max<uint64_t>(1, kChunkFloats / n_cols);
    for (uint64_t first = 0; first < n_rows; first += n_at_once) {
      TRY_ASSIGN(const std::vector<float> rows, base_rows(inputs_, *outputs()[index].input, first,
                                                          std::min(n_at_once, n_rows - first)));
      std::ranges::copy(rows, values + first * n_cols);
    }
    uint64_t row = 0;
    for (const RowFactor& of : factors_.at(out.name)) {
      const uint64_t end = of.n_rows < n_rows - row ? row + of.n_rows : n_rows;
      for (uint64_t i = row * n_cols; i < end * n_cols; ++i) values[i] *= of.factor;
      row = end;
    }
    return {};
  }

 private:
  // A tied head becomes a tensor of its own, because its factor is not that of the embedding.
  static std::vector<Output> outputs_of(const TensorSource& inputs, const RowFactors& factors) {
    std::vector<Output> outputs;
    const auto folded = [&](TensorInfo info, size_t input) {
      info.type = ElementType::kF32;
      info.n_bytes = info.n_elements() * sizeof(float);
      outputs.push_back({std::move(info), input, true});
    };
    for (size_t i = 0; i < inputs.tensors().size(); ++i) {
      const TensorInfo& info = inputs.tensors()[i];
      if (factors.contains(info.name)) {
        folded(info, i);
      } else {
        outputs.push_back({info, i, false});
      }
    }
    const std::string head = name_of(TensorId{kHead});
    const auto tied = inputs.find(name_of(TensorId{kEmbedding}));
    if (inputs.find(head) || !tied) return outputs;
    TensorInfo info = inputs.tensors()[*tied];
    info.name = head;
    folded(std::move(info), *tied);
    return outputs;
  }

  RowFactors factors_;
};

}  // namespace

Result<void> fold_factors(ModelSource& source) {
  TRY_ASSIGN(const ModelConfig config, config_of(source));
  if (config.layers.empty() || !config.layers.front().beside) return {};
  Metadata metadata = source.metadata();
  if (!metadata.contains(config.architecture + ".ssm.in_scales")) return {};
  for (const char* key : kFactorKeys)
    metadata.erase(fmt::format("{}.{}", config.architecture, key));
  source.add(std::make_unique<FoldedTensors>(source.top(), factors_of(config)));
  source.describe(source.label(), std::move(metadata));
  return {};
}

}  // namespace kvik
