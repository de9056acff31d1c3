#include "format/hf/keys/usual_keys.h"

#include <utility>

#include "format/hf/keys/block_keys.h"
#include "format/hf/keys/entry_keys.h"
#include "format/hf/keys/indexer_keys.h"
#include "format/hf/keys/step_keys.h"
#include "format/hf/keys/switch_keys.h"

namespace kvik::hf {

Result<boost::json::value> with_usual_keys(boost::json::value config, const FolderType& type) {
  if (type.has_step_keys) return with_step_keys(std::move(config));
  if (type.has_block_keys) return with_block_keys(std::move(config));
  if (type.has_sparse_layers) return with_sparse_keys(std::move(config));
  if (type.has_entry_keys) return with_entry_keys(std::move(config));
  if (type.has_switch_keys) return with_switch_keys(std::move(config));
  return config;
}

}  // namespace kvik::hf
