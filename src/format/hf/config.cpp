#include "format/hf/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/json/json_object.h"
#include "catalogue/limits.h"
#include "format/hf/encoder.h"
#include "format/hf/gguf_keys.h"
#include "format/hf/keys/config_file.h"
#include "format/hf/keys/entry_keys.h"
#include "format/hf/keys/expert_keys.h"
#include "format/hf/keys/indexer_keys.h"
#include "format/hf/keys/latent_keys.h"
#include "format/hf/keys/layer_kinds.h"
#include "format/hf/keys/ngram_keys.h"
#include "format/hf/keys/switch_keys.h"
#include "format/hf/keys/usual_keys.h"
#include "format/hf/recurrence.h"
#include "format/hf/rope.h"
#include "format/hf/windows.h"
#include "format/quoted.h"

namespace kvik::hf {
namespace {

namespace json = boost::json;

constexpr const char* kScale = "routed_scaling_factor";

// Models whose attention is bidirectional are a type of their own.
Result<FamilyFolder> type_of(const JsonObject& config) {
  TRY_ASSIGN(auto type, config.text("model_type"));
  if (!type) return config.unexpected_value("model_type", known_model_types());
  const json::value* reach = config.find("use_bidirectional_attention");
  if (reach && reach->is_bool() && reach->get_bool()) *type += " (bidirectional)";
  if (const FamilyFolder found = find_folder_type(*type); found.type) return found;
  return fail(ErrorCode::kUnsupported,
              fmt::format("{}: model type {} is not supported; known: {}", kConfigFile,
                          quoted(*type), known_model_types()));
}

// Returns the name of an activation in config.json.
const char* activation_name(Activation activation) {
  switch (activation) {
    case Activation::kReluSquared:
      return "relu2";
    case Activation::kXielu:
      return "xielu";
    case Activation::kGelu:
    case Activation::kGatedGelu:
      return "gelu";
    case Activation::kGeluTanh:
    case Activation::kPlainGeluTanh:
      return "gelu_pytorch_tanh";
    default:
      return "silu";
  }
}

Result<void> check_activation(const JsonObject& config, const Family& family) {
  for (const char* key : {"mlp_hidden_act", "hidden_activation", "hidden_act"}) {
    TRY_ASSIGN(const auto activation, config.text(key));
    if (!activation) continue;
    const std::string_view expected = activation_name(family.activation);
    // "gelu_new" is the same function, and the first folders of Gemma have "gelu" instead.
    const bool is_tanh = expected == "gelu_pytorch_tanh" &&
                         (*activation == "gelu_new" ||
                          (*activation == "gelu" && family.activation == Activation::kGeluTanh));
    const bool is_clamped =
        *activation == "swigluoai" && family.activation == Activation::kClampedSwish;
    if (*activation != expected && !is_tanh && !is_clamped) {
      return config.unexpected_value(key, expected, ErrorCode::kUnsupported);
    }
    break;
  }
  TRY_ASSIGN(const auto limit, config.real("swiglu_limit"));
  if (!limit || family.activation != Activation::kClampedSwish || *limit == 7.0) return {};
  return config.unexpected_value("swiglu_limit", "7", ErrorCode::kUnsupported);
}

Result<void> add_real(const JsonObject& config, std::string_view from, std::string_view to,
                      GgufKeys& keys) {
  TRY_ASSIGN(const auto value, config.real(from));
  if (value) keys.real(to, *value);
  return {};
}

// A soft cap of null is none. A key of 0 says so: without it, a family's usual cap may apply.
Result<void> add_soft_cap(const JsonObject& config, std::string_view name, GgufKeys& keys) {
  const json::value* stated = config.all().if_contains(name);
  if (!stated || !stated->is_null()) return add_real(config, name, name, keys);
  keys.real(name, 0);
  return {};
}

// Sizes of a layer and of the model.
struct Counts {
  uint32_t n_layers = 0;
  uint32_t head_dim = 0;
  uint32_t n_ctx = 0;
};

// Reads the sizes of MLA. Sets head_dim to the number of RoPE dimensions, which read_rope() needs.
Result<void> read_latent(const JsonObject& config, bool is_unrotated, GgufKeys& keys,
                         Counts& counts) {
  TRY_ASSIGN(const uint32_t rank, config.count("kv_lora_rank", kMaxHeadDim));
  TRY_ASSIGN(const uint32_t qk_nope_head_dim, config.count("qk_nope_head_dim", kMaxHeadDim));
  if (is_unrotated) {
    TRY_ASSIGN(const auto n_dims, config.number("qk_rope_head_dim"));
    if (n_dims.value_or(0) != 0) {
      return config.unexpected_value("qk_rope_head_dim", "0", ErrorCode::kUnsupported);
    }
    counts.head_dim = 0;
  } else {
    TRY_ASSIGN(counts.head_dim, config.count("qk_rope_head_dim", kMaxHeadDim));
  }
  TRY_ASSIGN(const uint32_t value_dim, config.count("v_head_dim", kMaxHeadDim));
  TRY_ASSIGN(const auto step, config.number("moe_layer_freq"));
  if (step.value_or(1) != 1) {
    return config.unexpected_value("moe_layer_freq", "1", ErrorCode::kUnsupported);
  }
  keys.number("attention.kv_lora_rank", rank);
  if (config.find("q_lora_rank")) {
    TRY_ASSIGN(const uint32_t q_rank, config.count("q_lora_rank", kMaxDim));
    keys.number("attention.q_lora_rank", q_rank);
  }
  keys.number("attention.key_length", rank + counts.head_dim);
  keys.number("attention.value_length", rank);
  keys.number("attention.key_length_mla", qk_nope_head_dim + counts.head_dim);
  keys.number("attention.value_length_mla", value_dim);
  return {};
}

Result<Counts> read_geometry(const JsonObject& config, const Family& family, GgufKeys& keys,
                             FolderConfig& out) {
  Counts counts;
  TRY_ASSIGN(counts.n_layers, config.count("num_hidden_layers", kMaxLayers));
  TRY_ASSIGN(const uint32_t model_dim, config.count("hidden_size", kMaxDim));
  TRY_ASSIGN(const auto n_dense, config.number("first_k_dense_replace"));
  const bool is_all_experts = family.experts && !config.find("intermediate_size") &&
                              n_dense.value_or(0) == 0 &&
                              (config.find("moe_intermediate_size") || out.type->has_entry_keys);
  uint32_t ffn_dim = out.type->usual_ffn_factor * model_dim;
  const json::value* ffn_dims = config.find("intermediate_size");
  if (family.has_layer_kinds && ffn_dims && ffn_dims->is_array()) {
    TRY_ASSIGN(auto of_layers, config.numbers("intermediate_size"));
    keys.numbers("feed_forward_length", std::move(of_layers));
  } else if (ffn_dim == 0 || ffn_dim > kMaxDim || config.find("intermediate_size")) {
    TRY_ASSIGN(ffn_dim, config.count(is_all_experts ? "moe_intermediate_size" : "intermediate_size",
                                     kMaxDim));
  }
  TRY_ASSIGN(const uint32_t n_heads, config.count("num_attention_heads", kMaxHeads));
  counts.head_dim = model_dim / n_heads;
  if (!family.attention.is_latent && (config.find("head_dim") || counts.head_dim == 0)) {
    TRY_ASSIGN(counts.head_dim, config.count("head_dim", kMaxHeadDim));
    if (counts.head_dim % 2 != 0 && !family.rope.is_absent) {
      return config.unexpected_value("head_dim", "an even number");
    }
  }
  if (family.has_layer_kinds) {
    TRY_ASSIGN(counts.head_dim, read_layer_kinds(config, {&family, out.type}, keys));
  }
  TRY_ASSIGN(out.n_vocab, config.count("vocab_size", kMaxVocabulary));
  TRY_ASSIGN(auto n_mtp_layers, config.number("num_nextn_predict_layers"));
  if (n_mtp_layers.value_or(0) > kMaxLayers) {
    return config.unexpected_value("num_nextn_predict_layers",
                                   fmt::format("at most {}", kMaxLayers));
  }
  if (!out.type->mtp->sign.empty()) {  // the tensors decide
    out.n_left_out_layers = n_mtp_layers.value_or(0);
    n_mtp_layers.reset();
  }
  if (n_mtp_layers) keys.number("nextn_predict_layers", *n_mtp_layers);
  keys.number("block_count", counts.n_layers + n_mtp_layers.value_or(0));
  keys.number("embedding_length", model_dim);
  keys.number("feed_forward_length", ffn_dim);
  TRY_ASSIGN(auto heads_of_layers, config.numbers("num_attention_heads_per_layer"));
  if (family.attention.lists_heads && !heads_of_layers.empty()) {
    keys.numbers("attention.head_count", std::move(heads_of_layers));
  }
  keys.number("attention.head_count", n_heads);
  if (!family.attention.is_latent && config.find("num_key_value_heads")) {
    TRY_ASSIGN(const uint32_t n_kv_heads, config.count("num_key_value_heads", kMaxHeads));
    if (out.type->window_kv_factor > 1) {
      TRY_ASSIGN(const auto windowed, listed_windows(config, family, counts.n_layers));
      std::vector<uint64_t> listed;
      for (const bool is_windowed : windowed) {
        listed.push_back(is_windowed ? out.type->window_kv_factor * n_kv_heads : n_kv_heads);
      }
      if (!listed.empty()) keys.numbers("attention.head_count_kv", std::move(listed));
    }
    keys.number("attention.head_count_kv", n_kv_heads);
  }
  if (family.attention.is_latent) {
    TRY(read_latent(config, family.rope.is_absent, keys, counts));
  } else {
    keys.number("attention.key_length", counts.head_dim);
    if (family.attention.may_have_narrow_values) {
      TRY_ASSIGN(const uint32_t value_dim, config.count("v_head_dim", kMaxHeadDim));
      keys.number("attention.value_length", value_dim);
    }
    keys.number("attention.value_length", counts.head_dim);
  }
  keys.number("vocab_size", out.n_vocab);
  const char* eps_key = family.norms.kind == NormKind::kRms ? "attention.layer_norm_rms_epsilon"
                                                            : "attention.layer_norm_epsilon";
  for (const char* key : {"rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps", "norm_eps"}) {
    TRY_ASSIGN(const auto eps, config.real(key));
    if (eps) keys.real(eps_key, *eps);
  }
  // Some models with layer norms may have RMS norms instead.
  TRY(add_real(config, "rms_norm_eps", "attention.layer_norm_rms_epsilon", keys));
  keys.real(eps_key, 0);
  TRY_ASSIGN(counts.n_ctx, config.count("max_position_embeddings", kMaxContext));
  if (family.encoder) {
    TRY_ASSIGN(out.n_unused_positions,
               read_encoder(config, {&family, out.type}, keys, out.metadata));
    if (out.n_unused_positions >= counts.n_ctx) {
      return config.unexpected_value("max_position_embeddings",
                                     fmt::format("more than {}", out.n_unused_positions));
    }
    counts.n_ctx -= out.n_unused_positions;
  }
  keys.number("context_length", counts.n_ctx);
  return counts;
}

Result<void> read_scales(const JsonObject& config, const FamilyFolder& of, GgufKeys& keys) {
  TRY(add_soft_cap(config, "attn_logit_softcapping", keys));
  TRY(add_soft_cap(config, "final_logit_softcapping", keys));
  if (of.type->has_query_scalar) {
    TRY_ASSIGN(const auto scalar, config.real("query_pre_attn_scalar"));
    if (!scalar || !(*scalar > 0)) {
      return config.unexpected_value("query_pre_attn_scalar", "a number > 0");
    }
    keys.real("attention.scale", 1 / std::sqrt(*scalar));
  }
  if (of.family->has_logit_factor) TRY(add_real(config, "logit_scale", "logit_scale", keys));
  if (!of.family->has_scales) return {};
  TRY(add_real(config, "embedding_multiplier", "embedding_scale", keys));
  TRY(add_real(config, "residual_multiplier", "residual_scale", keys));
  TRY(add_real(config, "attention_multiplier", "attention.scale", keys));
  return add_real(config, "logits_scaling", "logit_scale", keys);
}

// Returns the config of the text model: all of config.json or a part of it.
Result<json::value> text_config(json::value parsed) {
  TRY_ASSIGN(const JsonObject whole, JsonObject::of(parsed, kConfigFile));
  TRY_ASSIGN(const auto type, whole.text("model_type"));
  TRY_ASSIGN(const auto part, whole.object("text_config"));
  if (!part || (type && find_folder_type(*type).type)) return parsed;
  json::object merged = part->all();
  // The first folders of Step 3.7 state another type of the part, or none, and those of MiniMax M3
  // the type of folders of the text model alone, in which tensors have other names.
  const FolderType* usual = find_text_type(type.value_or(""));
  if (usual && usual->is_any_text_type) {
    merged["model_type"] = usual->model_type;
  } else {
    TRY_ASSIGN(const FamilyFolder of, type_of(*part));
    if (type != of.type->multimodal_type) {
      return fail(
          ErrorCode::kUnsupported,
          fmt::format("{}: model type {} with a part of type {} is not supported; known: {}",
                      kConfigFile, quoted(type.value_or("")), of.type->model_type,
                      known_model_types()));
    }
  }
  for (const char* key :
       {"eos_token_id", "bos_token_id", "quantization_config", "tie_word_embeddings"}) {
    if (const json::value* value = whole.find(key); value && !part->find(key)) merged[key] = *value;
  }
  // Either part may state it; a head that differs from the embedding is used in any case
  // (tensor_names.cpp).
  TRY_ASSIGN(const auto ties, whole.flag("tie_word_embeddings"));
  if (ties.value_or(false)) merged["tie_word_embeddings"] = true;
  return json::value(std::move(merged));
}

// Returns the value that all elements of a list have, or the value itself: some configs state a
// number for each layer.
json::value only_value(const json::value& value) {
  const json::array* list = value.if_array();
  if (!list || list->empty()) return value;
  const bool is_same = std::ranges::all_of(*list, [&](const auto& v) { return v == (*list)[0]; });
  return is_same ? (*list)[0] : value;
}

// Gives keys their usual names, and adds the defaults of the model type for absent keys; a null
// counts as present.
json::value with_defaults(json::value config, const FolderType& type) {
  json::object& all = config.get_object();
  for (const FolderKey& key : type.keys) {
    const json::value* value = all.if_contains(key.name);
    if (!value || (key.replaces ? value->is_null() : all.contains(key.usual))) continue;
    all[key.usual] = only_value(json::value(*value));
  }
  auto defaults = parse_json_file(type.defaults, kConfigFile);
  CHECK(defaults.has_value());
  const json::value* scale = all.if_contains(kScale);
  if (scale && scale->is_null()) all.erase(kScale);  // no factor is stated
  for (auto& member : defaults->get_object()) all.insert(member);
  const json::value* blocks = all.if_contains("layers_block_type");
  if (blocks && blocks->is_array() && !all.contains("num_hidden_layers")) {
    all["num_hidden_layers"] = blocks->get_array().size();
  }
  return config;
}

// Adds the weights of norms of Q and K that config.json states as a factor of Q.
Result<void> add_plain_qk_norms(const JsonObject& config, const Counts& counts,
                                std::vector<ConfigVector>& vectors) {
  TRY_ASSIGN(const auto factor, config.real("qk_scale_factor"));
  if (!factor || !(*factor > 0)) {
    return config.unexpected_value("qk_scale_factor", "a number > 0");
  }
  for (uint32_t layer = 0; layer < counts.n_layers; ++layer) {
    const std::vector<float> factors(counts.head_dim, static_cast<float>(*factor));
    vectors.push_back({TensorRole::kQNorm, factors, layer});
    vectors.push_back({TensorRole::kKNorm, std::vector<float>(counts.head_dim, 1.0f), layer});
  }
  return {};
}

Result<void> copy_value(const JsonObject& config, const FolderValue& of, GgufKeys& keys) {
  const json::value* value = config.find(of.name);
  if (!value) return {};
  if (value->is_bool()) {
    keys.flag(of.gguf, value->get_bool());
  } else if (value->is_string()) {
    TRY_ASSIGN(const auto text, config.text(of.name));
    keys.text(of.gguf, *text);
  } else if (value->is_array()) {
    TRY_ASSIGN(auto numbers, config.reals(of.name));
    if (numbers.empty()) return config.unexpected_value(of.name, "a value, or one for each layer");
    keys.reals(of.gguf, std::move(numbers));
  } else if (value->is_double()) {
    TRY(add_real(config, of.name, of.gguf, keys));
  } else {
    TRY_ASSIGN(const auto number, config.number(of.name));
    if (number) keys.number(of.gguf, *number);
  }
  return {};
}

// Returns whether a value is the expected one. 0 and 1 may stand for booleans.
bool is_fixed_value(const json::value& value, const json::value& expected) {
  if (expected.is_bool() && value.is_int64())
    return value.get_int64() == (expected.get_bool() ? 1 : 0);
  return value == expected;
}

// Returns the values of which a key may have one: a list that begins with a boolean has several.
std::vector<json::value> fixed_values(const json::value& stated) {
  const json::array* list = stated.if_array();
  if (!list || list->empty() || !list->front().is_bool()) return {stated};
  return {list->begin(), list->end()};
}

// Checks that keys have the only value that is supported, or are absent.
Result<void> check_fixed(const JsonObject& config, const FolderType& type) {
  if (type.fixed.empty()) return {};
  const auto fixed = parse_json_file(type.fixed, kConfigFile);
  CHECK(fixed.has_value());
  for (const auto& member : fixed->get_object()) {
    const json::value* value = config.all().if_contains(member.key());
    const std::vector<json::value> all = fixed_values(member.value());
    const auto is_this = [&](const json::value& each) { return is_fixed_value(*value, each); };
    if (!value || std::ranges::any_of(all, is_this)) continue;
    return config.unexpected_value(std::string_view(member.key().data(), member.key().size()),
                                   json::serialize(all.front()), ErrorCode::kUnsupported);
  }
  return {};
}

}  // namespace

Result<FolderConfig> read_folder_config(std::string_view text) {
  TRY_ASSIGN(json::value parsed, parse_json_file(text, kConfigFile));
  TRY_ASSIGN(json::value stated, text_config(std::move(parsed)));
  FamilyFolder of;
  {
    TRY_ASSIGN(const JsonObject fields, JsonObject::of(stated, kConfigFile));
    TRY_ASSIGN(of, type_of(fields));
  }
  TRY_ASSIGN(stated, with_usual_keys(std::move(stated), *of.type));
  const json::value whole = with_defaults(std::move(stated), *of.type);
  TRY_ASSIGN(const JsonObject config, JsonObject::of(whole, kConfigFile));
  FolderConfig out;
  out.type = of.type;
  TRY_ASSIGN(out.block_floats, read_block_floats(config));
  if (!out.block_floats) {
    TRY_ASSIGN(out.quantization, read_quantization(config, *of.type));
  }
  TRY(check_activation(config, *of.family));
  TRY(check_fixed(config, *of.type));

  out.architecture = of.family->name;
  out.metadata.insert("general.architecture", out.architecture);
  GgufKeys keys(out.metadata, of.family->name);
  TRY(read_recurrence(config, *of.family, keys));
  TRY_ASSIGN(const Counts counts, read_geometry(config, *of.family, keys, out));
  if (of.family->rope.is_absent) {
    keys.number("rope.dimension_count", 0);
  } else {
    TRY(read_rope(config, *of.family, {counts.head_dim, counts.n_ctx}, keys, out.vectors));
  }
  TRY(read_scales(config, of, keys));
  TRY(read_windows(config, of, counts.n_layers, keys));
  for (const FolderValue& value : of.type->values) TRY(copy_value(config, value, keys));
  out.values.assign(of.type->values.begin(), of.type->values.end());
  std::ranges::stable_partition(
      out.values, [&](const FolderValue& value) { return config.find(value.name) != nullptr; });
  if (of.type->has_ngrams) TRY(read_ngrams(config, keys));
  if (of.type->has_switch_keys) TRY(read_switch(config, keys));
  if (of.type->has_shared_indexers) TRY(read_shared_indexers(config, counts.n_layers, keys));
  if (of.type->has_sparse_layers) TRY(read_sparse_layers(config, counts.n_layers, keys));
  if (of.type->has_latent_keys) TRY(read_latent_keys(config, counts.n_layers, keys));
  if (of.type->has_entry_keys) TRY(read_entry_layers(config, counts.n_layers, keys));
  if (of.type->has_plain_qk_norm) TRY(add_plain_qk_norms(config, counts, out.vectors));
  // read_recurrence() has added a single number if the list of layers has no experts.
  const Metadata::Value* none = out.metadata.find(fmt::format("{}.expert_count", of.family->name));
  if (!none || !std::holds_alternative<uint64_t>(*none)) {
    TRY(read_experts(config, *of.type, keys));
  }
  for (const char* key : {"tie_word_embeddings", "tie_embedding"}) {
    if (out.ties_embedding) break;
    TRY_ASSIGN(out.ties_embedding, config.flag(key));
  }
  TRY_ASSIGN(out.end_ids, config.numbers("eos_token_id"));
  return out;
}

}  // namespace kvik::hf
