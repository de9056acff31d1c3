#include "format/hf/keys/expert_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catalogue/limits.h"

namespace kvik::hf {
namespace {

namespace json = boost::json;

// Rejects models in which not every layer has experts.
Result<void> check_sparse_layers(const JsonObject& config) {
  TRY_ASSIGN(const auto step, config.number("decoder_sparse_step"));
  if (step.value_or(1) != 1) {
    return config.unexpected_value("decoder_sparse_step", "1", ErrorCode::kUnsupported);
  }
  TRY_ASSIGN(const auto dense, config.numbers("mlp_only_layers"));
  if (dense.empty()) return {};
  return config.unexpected_value("mlp_only_layers", "none", ErrorCode::kUnsupported);
}

// Reads the number of first layers without experts from the list of all layers.
Result<void> read_mlp_types(const JsonObject& config, GgufKeys& keys) {
  std::string_view key = "mlp_layer_types";
  TRY_ASSIGN(std::vector<std::string> types, config.texts(key));
  const json::value* frequency = config.find("moe_layer_freq");
  const bool has_numbers = types.empty() && frequency && frequency->is_array();
  if (has_numbers) {
    key = "moe_layer_freq";
    TRY_ASSIGN(const std::vector<uint64_t> numbers, config.numbers(key));
    for (const uint64_t number : numbers) types.emplace_back(number ? "sparse" : "dense");
  }
  if (types.empty()) return {};
  TRY_ASSIGN(const auto n_layers, config.number("num_hidden_layers"));
  if (types.size() < n_layers.value_or(0)) {
    return config.unexpected_value(key, fmt::format("an entry for each of {} layers", *n_layers),
                                   ErrorCode::kCorrupt);
  }
  const auto first = std::ranges::find(types, "sparse");
  const bool is_known =
      std::all_of(types.begin(), first, [](auto& type) { return type == "dense"; });
  if (is_known && std::all_of(first, types.end(), [](auto& type) { return type == "sparse"; })) {
    keys.number("leading_dense_block_count", static_cast<uint64_t>(first - types.begin()));
    return {};
  }
  const auto* expected = has_numbers ? "0 for the first layers, 1 after them"
                                     : "dense for the first layers, sparse after them";
  return config.unexpected_value(key, expected, ErrorCode::kUnsupported);
}

// Reads the routing of experts and the shared experts.
Result<void> read_routing(const JsonObject& config, GgufKeys& keys) {
  TRY_ASSIGN(const auto n_shared, config.number("n_shared_experts"));
  if (n_shared) keys.number("expert_shared_count", *n_shared);
  TRY(read_mlp_types(config, keys));
  TRY_ASSIGN(const auto n_dense, config.number("first_k_dense_replace"));
  if (n_dense) keys.number("leading_dense_block_count", *n_dense);
  TRY_ASSIGN(const auto scale, config.real("routed_scaling_factor"));
  if (scale) keys.real("expert_weights_scale", *scale);
  TRY_ASSIGN(const auto n_groups, config.number("n_group"));
  TRY_ASSIGN(const auto n_groups_used, config.number("topk_group"));
  if (n_groups && n_groups_used) {
    keys.number("expert_group_count", *n_groups);
    keys.number("expert_group_used_count", *n_groups_used);
  }
  TRY_ASSIGN(const auto scoring, config.text("scoring_func"));
  if (!scoring) return {};
  for (const auto& [name, number] :
       {std::pair("softmax", 1), std::pair("sigmoid", 2), std::pair("sqrtsoftplus", 4)}) {
    if (*scoring != name) continue;
    keys.number("expert_gating_func", number);
    return {};
  }
  return config.unexpected_value("scoring_func", "sigmoid, softmax or sqrtsoftplus",
                                 ErrorCode::kUnsupported);
}

}  // namespace

Result<void> read_experts(const JsonObject& config, const FolderType& type, GgufKeys& keys) {
  if (!type.has_experts) return {};
  TRY_ASSIGN(const auto has_experts, config.flag("enable_moe_block"));
  TRY_ASSIGN(const auto n_local, config.number("num_local_experts"));
  if (!has_experts.value_or(true) || n_local == 0) return {};
  TRY(check_sparse_layers(config));
  const char* key = config.find("n_routed_experts")    ? "n_routed_experts"
                    : config.find("num_local_experts") ? "num_local_experts"
                    : !config.find("num_experts") && config.find("n_shared_experts")
                        ? "n_routed_experts"
                        : "num_experts";
  TRY_ASSIGN(const uint32_t n_experts, config.count(key, kMaxExperts));
  const char* used_key = config.find("top_k_experts") ? "top_k_experts" : "num_experts_per_tok";
  TRY_ASSIGN(const uint32_t n_used, config.count(used_key, n_experts));
  keys.number("expert_count", n_experts);
  keys.number("expert_used_count", n_used);
  TRY_ASSIGN(const auto n_dense, config.number("first_k_dense_replace"));
  if (config.find("moe_intermediate_size") || n_dense.value_or(0) != 0) {
    TRY_ASSIGN(const uint32_t ffn_dim, config.count("moe_intermediate_size", kMaxDim));
    keys.number("expert_feed_forward_length", ffn_dim);
  }
  if (config.find("shared_expert_intermediate_size")) {
    TRY_ASSIGN(const uint32_t ffn_dim, config.count("shared_expert_intermediate_size", kMaxDim));
    keys.number("expert_shared_feed_forward_length", ffn_dim);
  }
  TRY_ASSIGN(const auto normalizes, config.flag("norm_topk_prob"));
  if (normalizes) keys.flag("expert_weights_norm", *normalizes);
  return read_routing(config, keys);
}

}  // namespace kvik::hf
