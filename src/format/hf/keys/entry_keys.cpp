#include "format/hf/keys/entry_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <string>
#include <utility>
#include <vector>

#include "catalogue/limits.h"
#include "format/hf/keys/config_file.h"
#include "tensor/kv_type.h"

namespace kvik::hf {
namespace {

namespace json = boost::json;

constexpr const char* kWindow = "sliding_attention";
constexpr const char* kSparse = "compressed_sparse_attention";
constexpr const char* kHeavy = "heavily_compressed_attention";
constexpr uint64_t kSparseTokens = 4, kHeavyTokens = 128;

// Replaces the RoPEs of both kinds of layers by that of layers with entries.
Result<void> flatten_rope(const JsonObject& config, json::object& all) {
  TRY_ASSIGN(const auto parameters, config.object("rope_parameters"));
  TRY_ASSIGN(const auto old, config.object("rope_scaling"));
  json::object scaling;
  if (parameters) {
    TRY_ASSIGN(const auto main, parameters->object("main"));
    TRY_ASSIGN(const auto compress, parameters->object("compress"));
    if (main && compress) {
      TRY_ASSIGN(const auto type, main->text("rope_type"));
      if (type.value_or("default") != "default") {
        return main->unexpected_value("rope_type", "default", ErrorCode::kUnsupported);
      }
      if (const json::value* base = main->find("rope_theta")) all["rope_theta"] = *base;
      if (const json::value* base = compress->find("rope_theta")) {
        all["compress_rope_theta"] = *base;
      }
      if (const json::value* share = main->find("partial_rotary_factor")) {
        all["partial_rotary_factor"] = *share;
      }
      scaling = compress->all();
    } else {
      const auto is_object = [](const auto& member) { return member.value().is_object(); };
      if (std::ranges::any_of(parameters->all(), is_object)) {
        return config.unexpected_value("rope_parameters", "objects main and compress, or none");
      }
      scaling = parameters->all();
    }
    all.erase("rope_parameters");
  } else if (old) {
    scaling = old->all();
  }
  for (const char* key : {"rope_theta", "partial_rotary_factor", "main", "compress"}) {
    scaling.erase(key);
  }
  const json::value* factor = scaling.if_contains("attention_factor");
  const bool is_stated = factor && !factor->is_null();
  if (is_stated && (!factor->is_number() || factor->to_number<double>() != 1)) {
    return fail(ErrorCode::kUnsupported, fmt::format("{}: 'attention_factor' is {}, expected 1",
                                                     kConfigFile, json::serialize(*factor)));
  }
  scaling["attention_factor"] = 1.0;
  all["rope_scaling"] = std::move(scaling);
  return {};
}

// The number of first layers with a table of tokens replaces the list of kinds.
Result<void> count_tables(const JsonObject& config, json::object& all) {
  TRY_ASSIGN(const std::vector<std::string> types, config.texts("mlp_layer_types"));
  if (types.empty()) return {};
  TRY_ASSIGN(const uint32_t n_layers, config.count("num_hidden_layers", kMaxLayers));
  if (types.size() != n_layers) {
    return config.unexpected_value("mlp_layer_types",
                                   fmt::format("a word for each of {} layers", n_layers));
  }
  const auto first = std::ranges::find(types, "moe");
  const auto is = [](const char* kind) {
    return [kind](const std::string& type) { return type == kind; };
  };
  if (!std::all_of(types.begin(), first, is("hash_moe")) ||
      !std::all_of(first, types.end(), is("moe"))) {
    return config.unexpected_value("mlp_layer_types",
                                   "hash_moe for the first layers, moe after them",
                                   ErrorCode::kUnsupported);
  }
  all["num_hash_layers"] = static_cast<uint64_t>(first - types.begin());
  all.erase("mlp_layer_types");
  return {};
}

Result<uint64_t> rate_of(const JsonObject& config, const char* type, const char* old_key,
                         uint64_t usual) {
  TRY_ASSIGN(const auto rates, config.object("compress_rates"));
  if (rates) {
    TRY_ASSIGN(const auto rate, rates->number(type));
    if (rate) return *rate;
  }
  TRY_ASSIGN(const auto rate, config.number(old_key));
  return rate.value_or(usual);
}

}  // namespace

Result<json::value> with_entry_keys(json::value stated) {
  json::object all = stated.get_object();
  {
    TRY_ASSIGN(const JsonObject config, JsonObject::of(stated, kConfigFile));
    TRY(flatten_rope(config, all));
    TRY(count_tables(config, all));
    TRY_ASSIGN(const auto n_mtp_layers, config.number("num_nextn_predict_layers"));
    if (n_mtp_layers.value_or(0) > kMaxLayers) {
      return config.unexpected_value("num_nextn_predict_layers",
                                     fmt::format("at most {}", kMaxLayers));
    }
    TRY_ASSIGN(const auto rope_dim, config.number("qk_rope_head_dim"));
    if (rope_dim) {
      TRY_ASSIGN(const auto head_dim, config.number("head_dim"));
      const double n = static_cast<double>(head_dim.value_or(512));
      if (*rope_dim == 0 || *rope_dim > head_dim.value_or(512) || *rope_dim % 2 != 0) {
        return config.unexpected_value("qk_rope_head_dim",
                                       fmt::format("an even number up to {}", n));
      }
      // Half a dimension more, so that the product is not rounded below the number.
      all["partial_rotary_factor"] = (static_cast<double>(*rope_dim) + 0.5) / n;
      if (*rope_dim == head_dim.value_or(512)) all["partial_rotary_factor"] = 1.0;
    }
  }
  const json::value* head_dim = all.if_contains("head_dim");
  if (head_dim && head_dim->is_null()) all.erase("head_dim");
  all.erase("num_nextn_predict_layers");  // their tensors decide; checked above
  return json::value(std::move(all));
}

Result<void> read_entry_layers(const JsonObject& config, uint32_t n_layers, GgufKeys& keys) {
  TRY_ASSIGN(const uint64_t sparse, rate_of(config, kSparse, "compress_rate_csa", kSparseTokens));
  TRY_ASSIGN(const uint64_t heavy, rate_of(config, kHeavy, "compress_rate_hca", kHeavyTokens));
  const bool fits_pages =
      heavy > 0 && heavy <= kMaxContext && (kPageTokens % heavy == 0 || heavy % kPageTokens == 0);
  if (sparse != kSparseTokens || heavy == kSparseTokens || !fits_pages) {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("{}: 'compress_rates' are {} ({}) and {} ({}), expected {} for the "
                    "first alone, and a divisor or a multiple of {} for the second",
                    kConfigFile, sparse, kSparse, heavy, kHeavy, kSparseTokens, kPageTokens));
  }
  TRY_ASSIGN(std::vector<uint64_t> ratios, config.numbers("compress_ratios"));
  TRY_ASSIGN(const std::vector<std::string> types, config.texts("layer_types"));
  if (!types.empty()) ratios.clear();
  for (const std::string& type : types) {
    if (type != kWindow && type != kSparse && type != kHeavy) {
      return config.unexpected_value("layer_types",
                                     fmt::format("{}, {} or {}", kWindow, kSparse, kHeavy),
                                     ErrorCode::kUnsupported);
    }
    ratios.push_back(type == kWindow ? 0 : type == kSparse ? sparse : heavy);
  }
  const char* key = types.empty() ? "compress_ratios" : "layer_types";
  if (ratios.empty()) {
    for (uint32_t i = 0; i < n_layers; ++i) {
      ratios.push_back(i < 2 || i % 2 == 0 ? heavy : sparse);
    }
  }
  if (ratios.size() < n_layers) {
    return config.unexpected_value(key, fmt::format("an entry for each of {} layers", n_layers));
  }
  ratios.resize(size_t{n_layers} + 1);  // that of the MTP layer is 0 unless it is stated
  keys.numbers("attention.compress_ratios", std::move(ratios));
  return {};
}

}  // namespace kvik::hf
