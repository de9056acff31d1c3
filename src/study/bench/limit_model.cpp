#include "study/bench/limit_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "backend/ops/indexer.h"
#include "base/check.h"
#include "catalogue/kv_source.h"
#include "catalogue/tensor_roles.h"
#include "model/open_pages.h"
#include "tensor/block_format.h"

namespace kvik {
namespace {

// Matrices of the last layer that writes K and V, or a state, that it needs for that. Small ones
// are left out.
constexpr std::array kWriters = {
    TensorRole::kQkv,        TensorRole::kK,        TensorRole::kV,
    TensorRole::kKvDown,     TensorRole::kJointKv,  TensorRole::kEntryValue,
    TensorRole::kEntryGate,  TensorRole::kIndexKey, TensorRole::kIndexHeadKey,
    TensorRole::kOutputGate, TensorRole::kSpaceIn,  TensorRole::kConvIn};

// Returns whether the matrix belongs to what follows when all K, V and states are written.
bool is_after_cache(const TensorId& id, uint32_t last_writer) {
  if (id.layer != last_writer) return id.layer > last_writer;
  return std::ranges::find(kWriters, id.role) == kWriters.end();
}

}  // namespace

double min_compute_seconds(const Work& work, const MachineLimits& machine) {
  const double bf16_ops_per_s = std::max(machine.bf16_ops_per_s, machine.f32_ops_per_s);
  return work.int4_ops / machine.int4_ops_per_s + work.int8_ops / machine.int8_ops_per_s +
         work.bf16_ops / bf16_ops_per_s + work.f32_ops / machine.f32_ops_per_s;
}

double min_read_seconds(const Work& work, const MachineLimits& machine) {
  return work.bytes / machine.read_bytes_per_s;
}

double min_seconds(const Work& work, const MachineLimits& machine) {
  return std::max(min_compute_seconds(work, machine), min_read_seconds(work, machine));
}

LimitModel::LimitModel(const ModelSource& source, const ModelConfig& config, const KvFootprint& kv)
    : keys_(keeps_keys_by_channel(config, kv.type) ? Arithmetic::kInt8  // its levels are of int8
                                                   : arithmetic_of(key_type(kv.type))),
      values_(arithmetic_of(value_type(kv.type))) {
  // One row per token is read of an untied embedding and of per-layer embeddings, which is
  // negligible.
  const bool is_tied = !source.find(name_of(TensorId{TensorRole::kHead}));
  uint32_t last_writer = 0;
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    if (writes_cache(config.layers[i])) last_writer = i;
  }
  for (const TensorInfo& tensor : source.tensors()) {
    const auto id = tensor_named(tensor.name);
    const bool is_embedding = id && id->role == TensorRole::kEmbedding;
    if (tensor.shape.size() < 2 || (is_embedding && !is_tied)) continue;
    if (id && id->role == TensorRole::kPerLayerEmbedding) continue;
    // Layers for multi-token prediction (MTP) are not used.
    if (id && id->layer >= config.n_layers) continue;
    const bool is_head = is_embedding || (id && id->role == TensorRole::kHead);
    Part& part = is_head || (id && is_after_cache(*id, last_writer)) ? of_wanted_ : of_all_;
    const bool is_of_experts = id && kind_of(id->role) == TensorKind::kExperts;
    if (const ExpertsConfig* e = is_of_experts ? config.layers[id->layer].experts() : nullptr) {
      part.add_experts(*e, tensor);
      continue;
    }
    add(part.per_token, arithmetic_of(tensor.type), 2.0 * static_cast<double>(tensor.n_elements()));
    part.per_token.bytes += static_cast<double>(tensor.n_bytes);
  }
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    if (!config.layers[i].if_attention()) continue;
    layers_.push_back(attention_of(config.layers[i].attention(), kv.type,
                                   keeps_keys_by_channel(config, kv.type)));
    layers_.back().is_last = i >= last_writer;
  }
}

LimitModel::LayerAttention LimitModel::attention_of(const AttentionConfig& a, KvType type,
                                                    bool keys_by_channel) {
  const uint64_t kv_bytes =
      a.latent_dim() > 0 ? latent_row_bytes(type, a.latent_dim(), a.head_dim)
                         : a.n_kv_heads * head_token_bytes(type, a.head_dim, keys_by_channel);
  const IndexerConfig& indexer = a.indexer;
  const bool selects = indexer.is_own();
  return {
      .window = indexer.n_top > 0 ? indexer.n_budget() : a.window,
      .key_ops = 2.0 * a.n_heads * (a.head_dim + a.latent_dim()),
      .value_ops = a.latent_dim() > 0 ? 0.0 : 2.0 * a.n_heads * a.head_dim,
      .kv_bytes = static_cast<double>(kv_bytes),
      .index_ops = selects ? 2.0 * indexer.n_heads * indexer.head_dim / indexer.key_tokens : 0.0,
      .index_bytes = selects ? static_cast<double>(index_key_bytes(type, indexer.head_dim)) /
                                   indexer.key_tokens
                             : 0.0};
}

Result<LimitModel> LimitModel::of(const std::string& spec, const LoadedModel& loaded) {
  TRY_ASSIGN(const auto source, open_model(spec));
  return LimitModel(*source, loaded.model->config(), loaded.kv());
}

void LimitModel::hold_against(const MachineLimits& machine, BenchResult& result) const {
  result.work = work(result.bench);
  result.limit = result.bench.n_tokens * result.bench.batch / min_seconds(result.work, machine);
}

void LimitModel::hold_against(std::span<const MachineLimits> during, BenchResult& result) const {
  CHECK(during.size() == result.speeds.size());
  std::vector<double> shares;
  for (size_t i = 0; i < during.size(); ++i) {
    hold_against(during[i], result);
    shares.push_back(result.speeds[i] / result.limit);
  }
  std::ranges::sort(shares);
  result.limit = result.median / shares[shares.size() / 2];
}

// Adds the experts of a layer. Each token uses only some of them.
void LimitModel::Part::add_experts(const ExpertsConfig& experts, const TensorInfo& tensor) {
  const double share = static_cast<double>(experts.n_used) / experts.n_experts;
  expert_bytes[share] += static_cast<double>(tensor.n_bytes);
  add(per_token, arithmetic_of(tensor.type),
      2.0 * share * static_cast<double>(tensor.n_elements()));
}

// With random choices, all experts are read except those that no token chose.
void LimitModel::Part::add_to(Work& work, double n_rows, double n_at_once, double n_reads) const {
  work.int4_ops += n_rows * per_token.int4_ops;
  work.int8_ops += n_rows * per_token.int8_ops;
  work.bf16_ops += n_rows * per_token.bf16_ops;
  work.f32_ops += n_rows * per_token.f32_ops;
  work.bytes += n_reads * per_token.bytes;
  for (const auto& [share, of_all] : expert_bytes) {
    work.bytes += n_reads * of_all * (1 - std::pow(1 - share, n_at_once));
  }
}

Work LimitModel::work(const BenchCase& bench) const {
  const bool is_prefill = bench.kind == BenchCase::Kind::kPrefill;
  const double n_rows = double{1} * bench.n_tokens * bench.batch;
  const double n_wanted = is_prefill ? bench.batch : n_rows;
  const double n_reads = is_prefill ? 1 : bench.n_tokens;
  const double n_kv_reads = is_prefill ? bench.batch : n_rows;
  BenchCase last_token = bench;
  last_token.depth += bench.n_tokens - 1;
  last_token.n_tokens = 1;

  Work work;
  of_all_.add_to(work, n_rows, is_prefill ? n_rows : bench.batch, n_reads);
  of_wanted_.add_to(work, n_wanted, bench.batch, n_reads);
  for (const LayerAttention& layer : layers_) {
    const double n_attending = layer.is_last ? n_wanted : n_rows;
    const BenchCase& seen_by = layer.is_last && is_prefill ? last_token : bench;
    const double n_seen = tokens_seen(layer.window, seen_by);
    add(work, keys_, n_attending * layer.key_ops * n_seen);
    add(work, values_, n_attending * layer.value_ops * n_seen);
    work.bytes += n_kv_reads * layer.kv_bytes * n_seen;
    if (layer.index_ops == 0) continue;
    const double n_scored = tokens_seen(0, seen_by);
    add(work, Arithmetic::kF32, n_attending * layer.index_ops * n_scored);
    work.bytes += n_kv_reads * layer.index_bytes * n_scored;
  }
  return work;
}

double LimitModel::tokens_seen(uint32_t window, const BenchCase& bench) {
  const double begin = bench.depth, n = bench.n_tokens, end = begin + n;
  const double reach = window == 0 ? end : window;
  // the position from which on the window is full
  const double turn = std::clamp(reach, begin, end);
  return ((turn - begin) * (turn + begin) / 2 + (end - turn) * reach) / n;
}

LimitModel::Arithmetic LimitModel::arithmetic_of(ElementType type) {
  if (type == ElementType::kBF16) return Arithmetic::kBF16;
  if (float_format(type)) return Arithmetic::kF32;
  // Types with tables are multiplied as levels of eight bits.
  const BlockFormat* format = block_format(type);
  const bool is_fp4 = type == ElementType::kMXFP4 || type == ElementType::kNvFp4;
  const bool is_ternary = type == ElementType::kTQ1_0 || type == ElementType::kTQ2_0;
  if (format && ((format->table && !is_fp4) || format->pairs || format->codebook.levels ||
                 is_ternary || type == ElementType::kQ2_0)) {
    return Arithmetic::kInt8;
  }
  // Levels of up to six bits: at least two pairs of products add up in 16 bits, so the limit of
  // four bits is an upper bound. Types with levels of eight bits have more than seven bits.
  const ElementTraits& of = traits(type);
  const bool is_narrow = 8 * of.block_bytes <= 7 * of.block_elements;
  return is_narrow ? Arithmetic::kInt4 : Arithmetic::kInt8;
}

LimitModel::Arithmetic LimitModel::arithmetic_of(KvType type) {
  switch (type) {
    case KvType::kF32:
      return Arithmetic::kF32;
    case KvType::kBF16:
      return Arithmetic::kBF16;
    case KvType::kInt4:
      return Arithmetic::kInt4;
    default:
      return Arithmetic::kInt8;
  }
}

void LimitModel::add(Work& work, Arithmetic arithmetic, double ops) {
  switch (arithmetic) {
    case Arithmetic::kInt4:
      work.int4_ops += ops;
      return;
    case Arithmetic::kInt8:
      work.int8_ops += ops;
      return;
    case Arithmetic::kBF16:
      work.bf16_ops += ops;
      return;
    case Arithmetic::kF32:
      work.f32_ops += ops;
      return;
  }
}

}  // namespace kvik
