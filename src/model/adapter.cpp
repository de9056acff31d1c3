#include "model/adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/hash.h"
#include "format/adapter/adapter_source.h"

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

// What comes behind the rows of an embedding's b: [model_dim, rank] with an identity for its a.
LowRankView lookup_view(const AdapterPair& pair) {
  return {.a = {},
          .b = {},
          .n_rows = static_cast<uint32_t>(pair.n_cols),
          .n_cols = pair.rank,
          .rank = pair.rank,
          .scale = pair.scale,
          .type = pair.type};
}

void add_to_digest(Sha256& sha, const AdapterPair& pair, const LowRankFactors& factors) {
  sha.add_text(name_of(pair.tensor));
  sha.add_number(pair.part);
  sha.add_number(pair.rank);
  sha.add_number(std::bit_cast<uint32_t>(pair.scale));
  for (const std::vector<float>* values : {&factors.a, &factors.b}) {
    const auto bytes = std::as_bytes(std::span(*values));
    sha.add_number(bytes.size());
    sha.add(bytes);
  }
}

}  // namespace

bool leaves_kv_alone(TensorId tensor, const ModelConfig& config) {
  using enum TensorRole;
  if (tensor.role == kHead) return true;
  if (!is_of_layer(tensor.role) || tensor.layer + 1 != config.n_layers) return false;
  if (!std::holds_alternative<AttentionConfig>(config.layers[tensor.layer].mixer)) return false;
  constexpr TensorRole kBehind[] = {kQ,          kQDown,
                                    kQUp,        kKUp,
                                    kVUp,        kAttentionOutput,
                                    kGate,       kUp,
                                    kDown,       kRouter,
                                    kExpertGate, kExpertUp,
                                    kExpertDown, kSharedExpertGate,
                                    kSharedGate, kSharedUp,
                                    kSharedDown};
  return std::ranges::find(kBehind, tensor.role) != std::end(kBehind);
}

uint64_t Adapter::bytes_of(const AdapterSource& source, const Backend& backend) {
  uint64_t n_bytes = 0;
  for (const AdapterPair& pair : source.pairs()) {
    if (pair.tensor.role == TensorRole::kEmbedding) {
      n_bytes +=
          backend.low_rank_bytes(lookup_view(pair)) + pair.n_rows * pair.rank * sizeof(float);
    } else {
      n_bytes += backend.low_rank_bytes(view_of(pair, {}));
    }
  }
  return n_bytes;
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
  embedding_ = std::make_unique<Lookup>(&table, std::move(factors.b), backend.pack_low_rank(view));
}

Result<std::unique_ptr<Adapter>> Adapter::load(AdapterSource& source, const Model& model,
                                               Backend& backend) {
  std::unique_ptr<Adapter> adapter(new Adapter);
  Sha256 sha;
  bool leaves_kv = true;
  for (size_t i = 0; i < source.pairs().size(); ++i) {
    const AdapterPair& pair = source.pairs()[i];
    TRY_ASSIGN(LowRankFactors factors, source.read(i));
    add_to_digest(sha, pair, factors);
    leaves_kv = leaves_kv && leaves_kv_alone(pair.tensor, model.config());
    adapter->rank_ = std::max(adapter->rank_, pair.rank);
    const auto found = model.sites().find(pair.tensor);
    if (found == model.sites().end()) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("'{}': the model has no '{}': the adapter was made for another one",
                              source.label(), name_of(pair.tensor)));
    }
    const ProjectionSite& site = found->second;
    if (pair.tensor.role == TensorRole::kEmbedding) {
      adapter->add_embedding(pair, std::move(factors), *site.matrix, backend);
      continue;
    }
    adapter->parts_[site.matrix].push_back({.matrix = backend.pack_low_rank(view_of(pair, factors)),
                                            .index = pair.part,
                                            .first_column = site.first_column});
  }
  for (auto& [matrix, parts] : adapter->parts_) {
    std::ranges::stable_sort(parts, {}, &Part::index);
  }
  adapter->n_pairs_ = static_cast<uint32_t>(source.pairs().size());
  adapter->bytes_ = bytes_of(source, backend);
  adapter->digest_ = to_hex(sha.finish());
  if (!leaves_kv) adapter->cache_mark_ = adapter->digest_;
  return adapter;
}

}  // namespace kvik
