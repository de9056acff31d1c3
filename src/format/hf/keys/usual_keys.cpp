#include "format/hf/keys/usual_keys.h"

#include <string>
#include <utility>
#include <vector>

#include "format/hf/keys/block_keys.h"
#include "format/hf/keys/config_file.h"
#include "format/hf/keys/entry_keys.h"
#include "format/hf/keys/indexer_keys.h"
#include "format/hf/keys/step_keys.h"
#include "format/hf/keys/switch_keys.h"

namespace kvik::hf {
namespace {

// States whether the first MTP layer has a window: its type is listed apart, or that of the first
// layer.
Result<boost::json::value> with_mtp_key(boost::json::value config) {
  std::string type;
  {
    TRY_ASSIGN(const JsonObject stated, JsonObject::of(config, kConfigFile));
    TRY_ASSIGN(const std::vector<std::string> own, stated.texts("mtp_layer_types"));
    TRY_ASSIGN(const std::vector<std::string> types, stated.texts("layer_types"));
    type = !own.empty() ? own.front() : types.empty() ? "" : types.front();
  }
  if (!type.empty()) config.get_object()["kvik_mtp_is_windowed"] = type == "sliding_attention";
  return config;
}

}  // namespace

Result<boost::json::value> with_usual_keys(boost::json::value config, const FolderType& type) {
  if (type.has_step_keys) return with_step_keys(std::move(config));
  if (type.has_block_keys) return with_block_keys(std::move(config));
  if (type.has_sparse_layers) return with_sparse_keys(std::move(config));
  if (type.has_entry_keys) return with_entry_keys(std::move(config));
  if (type.has_mtp_types) return with_mtp_key(std::move(config));
  if (type.has_switch_keys) return with_switch_keys(std::move(config));
  return config;
}

}  // namespace kvik::hf
