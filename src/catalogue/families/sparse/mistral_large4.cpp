#include "catalogue/families/sparse/mistral_large4.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "catalogue/families/sparse/read_indexer.h"
#include "catalogue/key_reader.h"

namespace kvik::families {
namespace {

constexpr std::string_view kRotated = "rope.layers";
constexpr std::string_view kSources = "attention.kv_source_layers";

// In layers without RoPE, the RoPE dimensions of a head are projections of the latent vector, like
// the others.
Result<void> read_rotated_layers(const KeyReader& keys, ModelConfig& c) {
  TRY_ASSIGN(const std::vector<bool> rotated, keys.flags(kRotated, c.n_layers));
  for (uint32_t i = 0; i < rotated.size(); ++i) {
    if (rotated[i]) continue;
    auto& a = std::get<AttentionConfig>(c.layers[i].mixer);
    a.has_rope = false;
    a.head_dim = a.latent.rank;
    a.latent.qk_nope_head_dim += std::exchange(a.latent.qk_rope_head_dim, 0u);
  }
  return {};
}

// Reads the layer whose latent K each layer attends to.
Result<void> read_sources(const KeyReader& keys, ModelConfig& c) {
  if (!keys.has(kSources)) return {};
  TRY_ASSIGN(const std::vector<uint32_t> sources,
             keys.counts_or_none(kSources, c.n_layers, c.n_layers - 1));
  for (uint32_t i = 0; i < c.n_layers; ++i) {
    const uint32_t source = sources[i];
    auto& a = std::get<AttentionConfig>(c.layers[i].mixer);
    if (source == i) continue;
    const bool is_alike = source < i && c.layers[source].attention().has_rope == a.has_rope;
    if (!is_alike || sources[source] != source) {
      return fail(
          ErrorCode::kCorrupt,
          fmt::format("'{}' is {} for layer {}, expected an earlier layer that has latent K "
                      "of its own, {} RoPE",
                      keys.full(kSources), source, i, a.has_rope ? "with" : "without"));
    }
    a.shared_kv = source;
  }
  return {};
}

}  // namespace

Result<void> finish_mistral_large4(const KeyReader& keys, ModelConfig& config) {
  TRY(read_indexer(keys, {.pairing = RopePairing::kInterleaved, .has_input_norm = true}, config));
  TRY(read_shared_indexers(keys, std::vector<bool>(config.n_layers, true), config));
  TRY(read_rotated_layers(keys, config));
  TRY(read_sources(keys, config));
  for (LayerConfig& layer : config.layers) {
    std::get<AttentionConfig>(layer.mixer).has_ssmax = true;
  }
  config.has_learned_rope = true;
  return {};
}

}  // namespace kvik::families
