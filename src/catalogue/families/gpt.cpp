#include "catalogue/families/gpt.h"

#include "catalogue/key_reader.h"

namespace kvik::families {

Result<void> finish_gpt_neox(const KeyReader& keys, ModelConfig& config) {
  TRY_ASSIGN(config.has_parallel_halves, keys.flag("use_parallel_residual", true));
  return {};
}

}  // namespace kvik::families
