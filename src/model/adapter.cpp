#include "model/adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/hash.h"
#include "base/quantity.h"
#include "format/adapter/adapter_source.h"
#include "format/adapter/base_rows.h"
#include "model/tensor_loader.h"

namespace kvik {
namespace {

LowRankView view_of(const AdapterPair& pair, const LowRankFactors& factors) {
  return {.a = factors.a,
          .b = factors.b,
          .n_rows = static_cast<uint32_t>(pair.n_rows),
          .n_cols = static_cast<uint32_t>(pair.n_cols),
          .rank = pair.rank,
          .scale = pair.scale,
          .type = pair.type};
}

// Returns the shape of Lookup::up, which follows the rows of an embedding's b: [model_dim, rank]
// with the identity as its a.
LowRankView lookup_view(const AdapterPair& pair) {
  return {.a = {},
          .b = {},
          .n_rows = static_cast<uint32_t>(pair.n_cols),
          .n_cols = pair.rank,
          .rank = pair.rank,
          .scale = pair.scale,
          .type = pair.type};
}

// Returns whether the tensor's rows alternate between blocks of two kinds: query and gate of each
// head, or β and the input of the decay of each key head.
bool is_alternating(TensorId tensor, const ModelConfig& config) {
  if (tensor.role == TensorRole::kStateGates) return true;
  if (tensor.role != TensorRole::kQ) return false;
  const auto* attention = config.layers[tensor.layer].if_attention();
  return attention && attention->output_gate == OutputGate::kInQ;
}

// Returns the rows of the blocks of one kind: [n_rows / 2, n_cols]. first: 0 or 1, the kind.
std::vector<float> every_other_block(std::span<const float> rows, uint64_t block_floats,
                                     uint64_t first) {
  std::vector<float> out;
  out.reserve(rows.size() / 2);
  for (uint64_t at = first * block_floats; at < rows.size(); at += 2 * block_floats) {
    const auto block = rows.subspan(at, block_floats);
    out.insert(out.end(), block.begin(), block.end());
  }
  return out;
}

// Returns the bytes of packed scales, rounded up to whole vectors as low_rank_bytes() does.
uint64_t bytes_of_scales(uint64_t n_rows) {
  constexpr uint64_t kVectorBytes = 64;
  return (n_rows * sizeof(float) + kVectorBytes - 1) / kVectorBytes * kVectorBytes;
}

void add_to_digest(Sha256& sha, const AdapterPair& pair, const LowRankFactors& factors) {
  sha.add_text(name_of(pair.tensor));
  sha.add_number(pair.part);
  sha.add_number(pair.rank);
  sha.add_number(std::bit_cast<uint32_t>(pair.scale));
  for (const std::vector<float>* values : {&factors.a, &factors.b, &factors.magnitudes}) {
    if (values->empty()) continue;
    const auto bytes = std::as_bytes(std::span(*values));
    sha.add_number(bytes.size());
    sha.add(bytes);
  }
}

// A change that the model's own adapters make, and the tensors with its factors.
struct OwnPair {
  AdapterPair pair;  // its rank is that of all adapters
  TensorId a, b;
};

// Calls use(pair) for each change. has(tensor): whether the file has it.
template <class Has, class Use>
Result<void> each_own_pair(const ModelConfig& config, const Has& has, const Use& use) {
  const TensorTable table(config);
  for (uint32_t layer = 0; layer < config.n_layers; ++layer) {
    for (const LoraRoles& roles : kLoraRoles) {
      const TensorId a = {roles.a, layer}, b = {roles.b, layer};
      if (has(a) != has(b)) {
        return fail(ErrorCode::kCorrupt,
                    fmt::format("tensor '{}' is missing, but '{}' is there",
                                name_of(has(a) ? b : a), name_of(has(a) ? a : b)));
      }
      if (!has(a)) continue;
      TRY(use(OwnPair{.pair = {.tensor = {roles.matrix, layer},
                               .n_rows = table.find(b)->shape[1],
                               .n_cols = table.find(a)->shape[2],
                               .rank = config.adapter_switch->rank,
                               .scale = 1.0f},
                      .a = a,
                      .b = b}));
    }
  }
  return {};
}

// Returns the location of a matrix, which may be a part of the one of Q, K and V.
ProjectionSite site_of(TensorId tensor, const TensorLoader& tensors, const ModelConfig& config) {
  const auto& sites = tensors.sites();
  if (const auto found = sites.find(tensor); found != sites.end()) return found->second;
  const AttentionConfig& attention = config.layers[tensor.layer].attention();
  ProjectionSite site = sites.at({TensorRole::kQkv, tensor.layer});
  if (tensor.role != TensorRole::kQ) site.first_column += attention.q_dim();
  if (tensor.role == TensorRole::kV) site.first_column += attention.kv_dim();
  return site;
}

// Returns one of n equal parts of the numbers.
std::vector<float> part_of(std::span<const float> all, size_t n, size_t index) {
  const auto part = all.subspan(index * (all.size() / n), all.size() / n);
  return {part.begin(), part.end()};
}

}  // namespace

Result<std::vector<std::unique_ptr<Adapter>>> Adapter::load_own(TensorLoader& tensors,
                                                                const ModelConfig& config,
                                                                Backend& backend) {
  uint64_t n_bytes = 0;
  const auto has = [&](TensorId tensor) { return tensors.has(tensor); };
  TRY(each_own_pair(config, has, [&](const OwnPair& own) -> Result<void> {
    n_bytes += backend.low_rank_bytes(view_of(own.pair, {}));
    return {};
  }));
  const uint32_t n = config.adapter_switch->n_adapters;
  std::vector<std::unique_ptr<Adapter>> adapters;
  for (uint32_t i = 0; i < n; ++i) {
    adapters.emplace_back(new Adapter);
    adapters.back()->packed_ = backend.memory().allocate(n_bytes);
    adapters.back()->bytes_ = n_bytes;
    adapters.back()->rank_ = config.adapter_switch->rank;
  }
  TRY(each_own_pair(config, has, [&](const OwnPair& own) -> Result<void> {
    TRY_ASSIGN(const std::vector<float> a, tensors.floats(own.a));
    TRY_ASSIGN(const std::vector<float> b, tensors.floats(own.b));
    const ProjectionSite site = site_of(own.pair.tensor, tensors, config);
    for (uint32_t i = 0; i < n; ++i) {
      const LowRankFactors factors{.a = part_of(a, n + 1, i + 1), .b = part_of(b, n + 1, i + 1)};
      adapters[i]->add(own.pair, factors, {}, site, backend);
      ++adapters[i]->n_pairs_;
    }
    return {};
  }));
  tensors.add_weight_bytes(n * n_bytes);
  return adapters;
}

Result<uint64_t> Adapter::own_bytes(const ModelSource& source, const ModelConfig& config,
                                    const Backend& backend) {
  uint64_t n_bytes = 0;
  const auto has = [&](TensorId tensor) { return source.find(name_of(tensor)).has_value(); };
  TRY(each_own_pair(config, has, [&](const OwnPair& own) -> Result<void> {
    n_bytes += backend.low_rank_bytes(view_of(own.pair, {}));
    return {};
  }));
  return config.adapter_switch->n_adapters * n_bytes;
}

bool keeps_kv_unchanged(TensorId tensor, const ModelConfig& config) {
  using enum TensorRole;
  if (tensor.role == kHead) return true;
  if (config.has_mtp_head) return false;  // the MTP head has K and V after the last layer
  if (!is_of_layer(tensor.role) || tensor.layer + 1 != config.n_layers) return false;
  // Tensors that are used after K and V or the state. Layers of either kind share some of them. The
  // gate of a state's output is not an input of the state.
  // KDA's state has inputs of Q's convolution.
  if (tensor.role == kQ && std::holds_alternative<KdaConfig>(config.layers[tensor.layer].mixer)) {
    return false;
  }
  constexpr TensorRole kAfterState[] = {
      kQ,           kQDown,      kQUp,        kKUp,      kVUp,        kAttentionOutput, kOutputGate,
      kStateOutput, kConvOutput, kGate,       kUp,       kDown,       kRouter,          kExpertGate,
      kExpertUp,    kExpertDown, kSharedGate, kSharedUp, kSharedDown, kSharedExpertGate};
  return std::ranges::find(kAfterState, tensor.role) != std::end(kAfterState);
}

uint64_t Adapter::packed_bytes_of(const AdapterSource& source, const ModelConfig& config,
                                  const Backend& backend) {
  uint64_t n_bytes = 0;
  for (const AdapterPair& pair : source.pairs()) {
    if (pair.tensor.role == TensorRole::kEmbedding) {
      n_bytes += backend.low_rank_bytes(lookup_view(pair));
    } else if (is_alternating(pair.tensor, config)) {
      LowRankView half = view_of(pair, {});
      half.n_rows /= 2;
      n_bytes += 2 * backend.low_rank_bytes(half);
      if (pair.has_magnitudes) n_bytes += 2 * bytes_of_scales(half.n_rows);
    } else {
      n_bytes += backend.low_rank_bytes(view_of(pair, {}));
      if (pair.has_magnitudes) n_bytes += bytes_of_scales(pair.n_rows);
    }
  }
  return n_bytes;
}

uint64_t Adapter::bytes_of(const AdapterSource& source, const ModelConfig& config,
                           const Backend& backend) {
  uint64_t n_bytes = packed_bytes_of(source, config, backend);
  for (const AdapterPair& pair : source.pairs()) {
    if (pair.tensor.role == TensorRole::kEmbedding) {
      n_bytes += pair.n_rows * pair.rank * sizeof(float);
    }
  }
  return n_bytes;
}

std::unique_ptr<LowRankMatrix> Adapter::pack(const LowRankView& change, Backend& backend) {
  std::byte* place = packed_.data() + n_packed_;
  n_packed_ += backend.low_rank_bytes(change);
  CHECK(n_packed_ <= packed_.size());
  return backend.pack_low_rank(change, place);
}

const float* Adapter::pack_scales(std::span<const float> scales, Backend& backend) {
  if (scales.empty()) return nullptr;
  std::byte* place = packed_.data() + n_packed_;
  n_packed_ += bytes_of_scales(scales.size());
  CHECK(n_packed_ <= packed_.size());
  backend.memory().copy_in(place, std::as_bytes(scales));
  return reinterpret_cast<const float*>(place);
}

void Adapter::add(const AdapterPair& pair, const LowRankFactors& factors,
                  std::span<const float> scales, const ProjectionSite& site, Backend& backend) {
  std::vector<Part>& parts = parts_[site.matrix];
  LowRankView view = view_of(pair, factors);
  if (site.block_rows == 0) {
    parts.push_back({.matrix = pack(view, backend),
                     .index = pair.part,
                     .first_column = site.first_column,
                     .scales = pack_scales(scales, backend)});
    return;
  }
  view.n_rows /= 2;
  for (const uint32_t kind : {0u, 1u}) {
    const std::vector<float> b =
        every_other_block(factors.b, uint64_t{site.block_rows} * pair.rank, kind);
    CHECK(b.size() == uint64_t{view.n_rows} * pair.rank);
    view.b = b;
    parts.push_back(
        {.matrix = pack(view, backend),
         .index = pair.part,
         .first_column = kind == 0 ? site.first_column : site.second_column,
         .scales = pack_scales(every_other_block(scales, site.block_rows, kind), backend)});
  }
}

void Adapter::add_embedding(const AdapterPair& pair, LowRankFactors factors,
                            const PackedMatrix& table, Backend& backend) {
  std::vector<float> identity(size_t{pair.rank} * pair.rank);
  for (uint32_t i = 0; i < pair.rank; ++i) identity[size_t{i} * (pair.rank + 1)] = 1.0f;
  std::vector<float> up(pair.n_cols * pair.rank);
  for (uint64_t column = 0; column < pair.n_cols; ++column) {
    for (uint32_t r = 0; r < pair.rank; ++r) {
      up[column * pair.rank + r] = factors.a[r * pair.n_cols + column];
    }
  }
  LowRankView view = lookup_view(pair);
  view.a = identity;
  view.b = up;
  embedding_ = std::make_unique<Lookup>(&table, std::move(factors.b), pack(view, backend));
}

Result<std::unique_ptr<Adapter>> Adapter::load(AdapterSource& source, const Model& model,
                                               Backend& backend, ModelSource* base) {
  if (!source.saved().empty()) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}': 'modules_to_save' of adapter_config.json names tensors that "
                            "replace the base's: merge the adapter with `kvik adapter merge`",
                            source.label()));
  }
  std::unique_ptr<Adapter> adapter(new Adapter);
  const uint64_t n_bytes = packed_bytes_of(source, model.config(), backend);
  if (const auto left = backend.memory().free_bytes(); left && *left < n_bytes) {
    return fail(
        ErrorCode::kExhausted,
        fmt::format("'{}': it takes {} of the memory of {}, of which {} are free", source.label(),
                    format_bytes(n_bytes), backend.name(), format_bytes(*left)));
  }
  adapter->packed_ = backend.memory().allocate(n_bytes);
  Sha256 sha;
  bool leaves_kv = true;
  for (size_t i = 0; i < source.pairs().size(); ++i) {
    const AdapterPair& pair = source.pairs()[i];
    TRY_ASSIGN(LowRankFactors factors, source.read(i));
    add_to_digest(sha, pair, factors);
    leaves_kv = leaves_kv && keeps_kv_unchanged(pair.tensor, model.config());
    adapter->rank_ = std::max(adapter->rank_, pair.rank);
    const auto found = model.sites().find(pair.tensor);
    if (found == model.sites().end()) {
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("'{}': the model has no tensor '{}'; the adapter was made for another model",
                      source.label(), name_of(pair.tensor)));
    }
    const ProjectionSite& site = found->second;
    CHECK((site.block_rows > 0) == is_alternating(pair.tensor, model.config()));
    if (pair.tensor.role == TensorRole::kEmbedding) {
      adapter->add_embedding(pair, std::move(factors), *site.matrix, backend);
      continue;
    }
    std::vector<float> scales;
    if (pair.has_magnitudes) {
      CHECK(base);
      TRY_ASSIGN(scales, dora_scales(pair, factors, *base));
      for (size_t i = 0; i < factors.b.size(); ++i) factors.b[i] *= scales[i / pair.rank];
    }
    adapter->add(pair, factors, scales, site, backend);
  }
  for (auto& [matrix, parts] : adapter->parts_) {
    std::ranges::stable_sort(parts, {}, &Part::index);
  }
  adapter->n_pairs_ = static_cast<uint32_t>(source.pairs().size());
  adapter->bytes_ = bytes_of(source, model.config(), backend);
  adapter->digest_ = to_hex(sha.finish());
  if (!leaves_kv) adapter->cache_key_suffix_ = adapter->digest_;
  return adapter;
}

}  // namespace kvik
