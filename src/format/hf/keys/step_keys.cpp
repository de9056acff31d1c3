#include "format/hf/keys/step_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json/json_object.h"
#include "catalogue/limits.h"
#include "format/hf/keys/config_file.h"

namespace kvik::hf {
namespace {

namespace json = boost::json;

constexpr const char* kWindowed = "sliding_attention";
constexpr uint32_t kUsualDense = 3;  // first layers without experts if no key says otherwise

// States whether the first MTP layer has a window, and the limit of its MLP. Newer folders list the
// types of these layers apart.
Result<void> add_mtp_keys(const JsonObject& config, uint32_t n_layers, json::object& all) {
  TRY_ASSIGN(const std::vector<std::string> own, config.texts("mtp_layer_types"));
  TRY_ASSIGN(const std::vector<std::string> types, config.texts("layer_types"));
  const std::string type = !own.empty()              ? own.front()
                           : types.size() > n_layers ? types[n_layers]
                                                     : std::string();
  if (!type.empty()) all["kvik_mtp_is_windowed"] = type == kWindowed;
  const json::value* limits = config.find("swiglu_limits_shared");
  const json::array* list = limits ? limits->if_array() : nullptr;
  const bool has_limit = list && list->size() > n_layers && (*list)[n_layers].is_number();
  all["kvik_mtp_limit"] = has_limit ? (*list)[n_layers].to_number<double>() : 0.0;
  return {};
}

// Shortens lists that have entries for MTP layers, too, and replaces null by 0, no limit.
Result<void> shorten_lists(const JsonObject& config, uint32_t n_layers, json::object& all) {
  TRY_ASSIGN(const auto n_mtp_layers, config.number("num_nextn_predict_layers"));
  for (const char* key : {"layer_types", "mlp_layer_types", "swiglu_limits", "swiglu_limits_shared",
                          "rope_theta", "partial_rotary_factors", "use_rope_layers"}) {
    json::value* value = all.if_contains(key);
    json::array* list = value ? value->if_array() : nullptr;
    if (!list || list->empty()) continue;
    if (list->size() < n_layers || list->size() - n_layers > n_mtp_layers.value_or(0)) {
      return config.unexpected_value(key, fmt::format("one for each of {} layers", n_layers));
    }
    list->resize(n_layers);
    for (json::value& entry : *list) {
      if (entry.is_null()) entry = 0;
    }
  }
  return {};
}

// Lists the kind of each layer's MLP if "moe_layers_enum" has the numbers of layers with experts:
// "3,4,5".
Result<void> list_mlps(const JsonObject& config, uint32_t n_layers, json::object& all) {
  if (config.find("mlp_layer_types")) return {};
  constexpr const char* kKey = "moe_layers_enum";
  std::set<uint64_t> sparse;
  if (const json::value* stated = config.find(kKey); stated && stated->is_string()) {
    const std::string_view text = stated->get_string();
    for (size_t at = 0; at < text.size();) {
      uint64_t layer = 0;
      const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), layer);
      at = static_cast<size_t>(end - text.data()) + 1;
      if (error != std::errc() || (at <= text.size() && *end != ',')) {
        return config.unexpected_value(kKey, "numbers of layers, separated by commas");
      }
      sparse.insert(layer);
    }
  } else if (stated) {
    TRY_ASSIGN(const auto numbers, config.numbers(kKey));
    sparse.insert(numbers.begin(), numbers.end());
  } else {
    for (uint32_t i = kUsualDense; i < n_layers; ++i) sparse.insert(i);
  }
  json::array types;
  for (uint32_t i = 0; i < n_layers; ++i) types.push_back(sparse.contains(i) ? "sparse" : "dense");
  all["mlp_layer_types"] = std::move(types);
  return {};
}

// Lists the query heads of each layer, of which those with a window have a number of their own.
Result<void> list_heads(const JsonObject& config, const std::vector<std::string>& types,
                        json::object& all) {
  TRY_ASSIGN(const uint32_t n_heads, config.count("num_attention_heads", kMaxHeads));
  TRY_ASSIGN(const auto stated, config.number("num_sliding_attention_heads"));
  uint64_t n_window_heads = stated.value_or(n_heads);
  TRY_ASSIGN(const auto other, config.object("attention_other_setting"));
  if (other && !stated) {
    TRY_ASSIGN(n_window_heads, other->count("num_attention_heads", kMaxHeads));
    for (const char* key : {"num_attention_groups", "head_dim"}) {
      TRY_ASSIGN(const auto own, other->number(key));
      TRY_ASSIGN(const auto usual, config.number(key));
      if (own == usual || !own || !usual) continue;
      return other->unexpected_value(key, fmt::format("the {} of all layers", *usual),
                                     ErrorCode::kUnsupported);
    }
  }
  TRY_ASSIGN(const auto scalar, config.number("query_pre_attn_scalar"));
  TRY_ASSIGN(const auto head_dim, config.number("head_dim"));
  if (scalar && head_dim && scalar != head_dim) {
    return config.unexpected_value("query_pre_attn_scalar",
                                   fmt::format("the {} of head_dim", *head_dim),
                                   ErrorCode::kUnsupported);
  }
  json::array heads;
  for (const std::string& type : types) {
    heads.push_back(type == kWindowed ? n_window_heads : uint64_t{n_heads});
  }
  all["num_attention_heads_per_layer"] = std::move(heads);
  return {};
}

// Returns the value of a list for the first layer of a type, or the value itself.
json::value of_type(const json::value& value, const std::vector<std::string>& types,
                    std::string_view type) {
  const json::array* list = value.if_array();
  if (!list) return value;
  const auto at = static_cast<size_t>(std::ranges::find(types, type) - types.begin());
  return at < list->size() ? (*list)[at] : json::value();
}

// Makes "rope_parameters" of lists with an entry for each layer, which agree for a type of layer.
// A scaling is that of layers without a window.
Result<void> join_ropes(const JsonObject& config, const std::vector<std::string>& types,
                        json::object& all) {
  if (config.find("rope_parameters")) return {};
  json::object ropes;
  for (const char* type : {"full_attention", kWindowed}) {
    if (std::ranges::count(types, type) == 0) continue;
    json::object rope = {{"rope_type", "default"}};
    for (const auto& [listed, key] :
         {std::pair("rope_theta", "rope_theta"),
          std::pair("partial_rotary_factors", "partial_rotary_factor")}) {
      const json::value* value = config.find(listed);
      if (!value) continue;
      const json::value usual = of_type(*value, types, type);
      for (size_t i = 0; value->is_array() && i < types.size(); ++i) {
        if (types[i] != type || value->get_array()[i] == usual) continue;
        return config.unexpected_value(listed, fmt::format("one value for all {}", type),
                                       ErrorCode::kUnsupported);
      }
      rope[key] = usual;
    }
    TRY_ASSIGN(const auto scaling, config.object("rope_scaling"));
    if (scaling && type != kWindowed) {
      for (const auto& member : scaling->all()) rope[member.key()] = member.value();
    }
    ropes[type] = std::move(rope);
  }
  for (const char* key : {"rope_theta", "partial_rotary_factors", "rope_scaling"}) all.erase(key);
  all["rope_parameters"] = std::move(ropes);
  return {};
}

}  // namespace

Result<json::value> with_step_keys(json::value config) {
  json::object& all = config.get_object();
  uint32_t n_layers = 0;
  {
    TRY_ASSIGN(const JsonObject stated, JsonObject::of(config, kConfigFile));
    TRY_ASSIGN(n_layers, stated.count("num_hidden_layers", kMaxLayers));
    TRY(add_mtp_keys(stated, n_layers, all));
    TRY(shorten_lists(stated, n_layers, all));
  }
  const json::value shortened = config;
  TRY_ASSIGN(const JsonObject stated, JsonObject::of(shortened, kConfigFile));
  TRY_ASSIGN(std::vector<std::string> types, stated.texts("layer_types"));
  if (types.empty()) types.assign(n_layers, "full_attention");
  if (const json::value* rotated = stated.find("use_rope_layers"); rotated && rotated->is_array()) {
    const bool is_all = std::ranges::all_of(rotated->get_array(), [](const json::value& value) {
      return value.is_bool() ? value.get_bool() : value != 0;
    });
    if (!is_all) {
      return stated.unexpected_value("use_rope_layers", "all layers", ErrorCode::kUnsupported);
    }
  }
  TRY(list_mlps(stated, n_layers, all));
  TRY(list_heads(stated, types, all));
  TRY(join_ropes(stated, types, all));
  return config;
}

}  // namespace kvik::hf
