#include "format/draft/eagle_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cctype>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json/json_object.h"
#include "catalogue/read_eagle.h"
#include "format/arranged_tensors.h"
#include "format/hf/config.h"
#include "format/hf/tensor_files.h"
#include "format/quoted.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr size_t kMaxConfigBytes = size_t{16} << 20;
constexpr const char* kFile = "config.json";
constexpr std::string_view kLayerType = "llama";  // model type of the layer

// Names of tensors in folders, after "model.", and in GGUF files.
struct TensorName {
  std::string_view folder, gguf;
};
constexpr TensorName kNames[] = {
    {"embed_tokens.weight", "token_embd.weight"},
    {"fc.weight", "fc.weight"},
    {"norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
    {"d2t", "d2t"},
};
constexpr std::string_view kLayerPrefixes[] = {"midlayer.", "layers.0."};
constexpr TensorName kLayerNames[] = {
    {"input_layernorm.weight", "attn_norm.weight"},
    {"hidden_norm.weight", "attn_norm_2.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.k_proj.weight", "attn_k.weight"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.q_proj.bias", "attn_q.bias"},
    {"self_attn.k_proj.bias", "attn_k.bias"},
    {"self_attn.v_proj.bias", "attn_v.bias"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"post_attention_layernorm.weight", "ffn_norm.weight"},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
};

std::optional<std::string> gguf_name(std::string_view name) {
  if (name.starts_with("model.")) name.remove_prefix(6);
  for (const TensorName& known : kNames) {
    if (known.folder == name) return std::string(known.gguf);
  }
  for (const std::string_view prefix : kLayerPrefixes) {
    if (!name.starts_with(prefix)) continue;
    for (const TensorName& known : kLayerNames) {
      if (known.folder == name.substr(prefix.size())) return fmt::format("blk.0.{}", known.gguf);
    }
  }
  return std::nullopt;
}

bool names_eagle(std::string_view architecture) {
  std::string lower(architecture);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower.find("eagle3") != std::string::npos;
}

Result<std::optional<json::value>> read_json(const std::string& path) {
  TRY_ASSIGN(const auto text,
             hf::read_text_file(fmt::format("{}/{}", path, kFile), kMaxConfigBytes));
  if (!text) return std::nullopt;
  TRY_ASSIGN(json::value parsed, parse_json_file(*text, kFile));
  return parsed;
}

// Returns the numbers of layers whose inputs the head reads; empty if they are the usual ones. The
// part "eagle_config" (SpecForge, SGLang) has the numbers of layers whose outputs they are.
Result<std::vector<int64_t>> read_taps(const JsonObject& whole) {
  constexpr const char* kKey = "eagle_aux_hidden_state_layer_ids";
  std::vector<int64_t> taps;
  TRY_ASSIGN(const auto part, whole.object("eagle_config"));
  TRY_ASSIGN(const std::vector<uint64_t> inputs, whole.numbers(kKey));
  for (const uint64_t layer : inputs) {
    taps.push_back(static_cast<int64_t>(std::min<uint64_t>(layer, INT32_MAX)));
  }
  if (!taps.empty() || !part) return taps;
  TRY_ASSIGN(const std::vector<uint64_t> outputs, part->numbers(kKey));
  for (const uint64_t layer : outputs) {
    taps.push_back(static_cast<int64_t>(std::min<uint64_t>(layer, INT32_MAX)) + 1);
  }
  return taps;
}

// Returns the keys of a GGUF file of the head.
Result<Metadata> read_keys(const json::value& parsed) {
  TRY_ASSIGN(const JsonObject whole, JsonObject::of(parsed, kFile));
  TRY_ASSIGN(const auto part, whole.object("transformer_layer_config"));  // vLLM's Speculators
  json::object layer = part ? part->all() : whole.all();
  layer["model_type"] = kLayerType;
  TRY_ASSIGN(const hf::FolderConfig config,
             hf::read_folder_config(json::serialize(json::value(std::move(layer)))));
  if (!config.vectors.empty() || config.quantization || config.block_floats) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{}: this EAGLE-3 head is quantized or has RoPE with divisors (llama3, "
                            "LongRoPE), expected one with neither",
                            kFile));
  }
  Metadata keys;
  keys.insert("general.architecture", std::string(kEagleArchitecture));
  const std::string prefix = fmt::format("{}.", config.architecture);
  for (const auto& [key, value] : config.metadata.values()) {
    if (!key.starts_with(prefix)) continue;
    keys.insert(fmt::format("{}.{}", kEagleArchitecture, key.substr(prefix.size())), value);
  }
  const std::string own = fmt::format("{}.", kEagleArchitecture);
  keys.insert(kEagleHalves, true);
  keys.insert(kEagleOffsets, true);
  TRY_ASSIGN(const bool is_normed, whole.flag("norm_before_residual", false));
  keys.insert(own + "norm_before_residual", is_normed);
  TRY_ASSIGN(const auto target_dim, whole.number("target_hidden_size"));
  if (target_dim) keys.insert(own + "target_hidden_size", *target_dim);
  TRY_ASSIGN(std::vector<int64_t> taps, read_taps(whole));
  if (!taps.empty()) keys.insert(own + "extract_layers", std::move(taps));
  return keys;
}

Result<std::unique_ptr<ModelSource>> open(const std::string& path) {
  TRY_ASSIGN(const auto parsed, read_json(path));
  if (!parsed) return fail(ErrorCode::kNotFound, "there is no config.json");
  TRY_ASSIGN(Metadata keys, read_keys(*parsed));
  TRY_ASSIGN(auto source, hf::open_tensor_files(path));
  std::vector<ArrangedTensor> arranged;
  for (size_t i = 0; i < source->tensors().size(); ++i) {
    const std::string& name = source->tensors()[i].name;
    if (name == "t2d") continue;  // says which tokens "d2t" has
    const auto known = gguf_name(name);
    if (!known) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("tensor {} is not supported in an EAGLE-3 head", quoted(name)));
    }
    ArrangedTensor tensor = unchanged_tensor(*source, i);
    tensor.info.name = *known;
    arranged.push_back(std::move(tensor));
  }
  arrange(*source, std::move(arranged));
  source->describe(path, std::move(keys));
  return source;
}

}  // namespace

bool is_eagle_folder(const std::string& path) {
  const auto parsed = read_json(path);
  if (!parsed || !*parsed || !(*parsed)->is_object()) return false;
  const json::value* names = (*parsed)->get_object().if_contains("architectures");
  if (!names || !names->is_array()) return false;
  return std::ranges::any_of(names->get_array(), [](const json::value& name) {
    return name.is_string() && names_eagle(name.get_string());
  });
}

bool has_eagle_tensors(const std::string& path) {
  const auto source = hf::open_tensor_files(path);
  if (!source) return false;
  std::set<std::string> names;
  for (const TensorInfo& tensor : (*source)->tensors()) {
    names.insert(gguf_name(tensor.name).value_or(""));
  }
  return names.contains("fc.weight") && names.contains("blk.0.attn_norm_2.weight");
}

Result<std::unique_ptr<ModelSource>> open_eagle_folder(const std::string& path) {
  auto source = open(path);
  if (source) return source;
  return fail(source.error().code, fmt::format("'{}': {}", path, source.error().message));
}

}  // namespace kvik
