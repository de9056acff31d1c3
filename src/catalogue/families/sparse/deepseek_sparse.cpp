#include "catalogue/families/sparse/deepseek_sparse.h"

#include <utility>
#include <vector>

#include "catalogue/families/sparse/read_indexer.h"
#include "catalogue/key_reader.h"

namespace kvik::families {

Result<void> finish_deepseek32(const KeyReader& keys, ModelConfig& config) {
  return read_indexer(keys, {.pairing = RopePairing::kHalves}, config);
}

Result<void> finish_glm_dsa(const KeyReader& keys, ModelConfig& config) {
  TRY(read_indexer(keys, {.pairing = RopePairing::kInterleaved}, config));
  // The first files of GLM 5.2 do not state which layers have an indexer of their own.
  constexpr uint32_t kContextOf52 = 1 << 20;
  std::vector<bool> own(config.n_layers, true);
  if (config.n_ctx_train >= kContextOf52) {
    for (uint32_t i = 3; i < config.n_layers; ++i) own[i] = (i - 2) % 4 == 0;
  }
  return read_shared_indexers(keys, std::move(own), config);
}

}  // namespace kvik::families
