#include "format/hf/encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "catalogue/limits.h"
#include "format/hf/modules/modules.h"
#include "format/hf/modules/reranker.h"
#include "format/quoted.h"

namespace kvik::hf {
namespace {

namespace json = boost::json;

constexpr uint64_t kMeanPooling = 1, kClsPooling = 2, kLastPooling = 3;

struct PoolingMode {
  std::string_view flag;  // key of 1_Pooling/config.json
  std::string_view word;  // value of its key "pooling_mode"
  uint64_t type;          // "pooling_type" of GGUF files; 0: not supported
};
constexpr PoolingMode kModes[] = {
    {"pooling_mode_mean_tokens", "mean", kMeanPooling},
    {"pooling_mode_cls_token", "cls", kClsPooling},
    {"pooling_mode_lasttoken", "lasttoken", kLastPooling},
    {"pooling_mode_max_tokens", "max", 0},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", 0},
    {"pooling_mode_weightedmean_tokens", "weightedmean", 0},
};

std::unexpected<Error> unsupported_pooling(std::string_view file, std::string_view mode) {
  return fail(ErrorCode::kUnsupported,
              fmt::format("{}: pooling {} is not supported, expected mean, cls or lasttoken", file,
                          quoted(mode)));
}

// Returns the "pooling_type" that a module's config.json states.
Result<uint64_t> read_mode(const std::string& folder, const Module& module) {
  const std::string file = module.path + "/config.json";
  TRY_ASSIGN(const json::value parsed, read_module_config(folder, module));
  TRY_ASSIGN(const JsonObject config, JsonObject::of(parsed, file));
  TRY_ASSIGN(const auto word, config.text("pooling_mode"));
  std::vector<PoolingMode> chosen;
  for (const PoolingMode& mode : kModes) {
    TRY_ASSIGN(const auto is_on, config.flag(mode.flag));
    if (word ? *word == mode.word : is_on.value_or(false)) chosen.push_back(mode);
  }
  if (word && chosen.empty()) return unsupported_pooling(file, *word);
  if (chosen.size() != 1) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{}: {} kinds of pooling are on, expected one", file, chosen.size()));
  }
  if (chosen.front().type == 0) return unsupported_pooling(file, chosen.front().word);
  return chosen.front().type;
}

// Reads the labels of a model for sequence classification.
Result<void> read_labels(const JsonObject& config, GgufKeys& keys) {
  TRY_ASSIGN(const auto architectures, config.texts("architectures"));
  const bool classifies = std::ranges::any_of(architectures, [](const std::string& name) {
    return name.ends_with("ForSequenceClassification");
  });
  if (!classifies) return {};
  keys.number("pooling_type", kRankPooling);
  TRY_ASSIGN(const auto labels, config.object("id2label"));
  // Transformers' default without "id2label" is two labels.
  const size_t n_labels = labels ? labels->all().size() : 2;
  if (n_labels == 0 || n_labels > kMaxLabels) {
    return config.unexpected_value("id2label", fmt::format("1 to {} labels", kMaxLabels));
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < n_labels; ++i) {
    const json::value* name = labels ? labels->find(fmt::format("{}", i)) : nullptr;
    names.push_back(name && name->is_string() ? std::string(name->get_string())
                                              : fmt::format("LABEL_{}", i));
  }
  keys.texts("classifier.output_labels", std::move(names));
  return {};
}

// Returns RoPE's base of a kind of layers: "rope_parameters" of Transformers 5, or a key of its
// own.
Result<double> rope_base(const JsonObject& config, const char* kind, const char* key) {
  TRY_ASSIGN(const auto parameters, config.object("rope_parameters"));
  if (parameters) {
    TRY_ASSIGN(const auto part, parameters->object(kind));
    if (part) {
      TRY_ASSIGN(const auto base, part->real("rope_theta"));
      if (base) return *base;
    }
  }
  TRY_ASSIGN(const auto base, config.real(key));
  if (base && *base > 0) return *base;
  return config.unexpected_value(key, "a number > 0");
}

// Reads what only ModernBERT has: windows and two kinds of RoPE.
Result<void> read_local_attention(const JsonObject& config, GgufKeys& keys) {
  TRY_ASSIGN(const double base, rope_base(config, "full_attention", "global_rope_theta"));
  TRY_ASSIGN(const double local, rope_base(config, "sliding_attention", "local_rope_theta"));
  keys.real("rope.freq_base", base);
  keys.real("rope.freq_base_swa", local);
  TRY_ASSIGN(const uint32_t window, config.count("local_attention", kMaxContext));
  keys.number("attention.sliding_window", window);
  TRY_ASSIGN(const uint32_t every, config.count("global_attn_every_n_layers", kMaxLayers));
  keys.number("attention.sliding_window_pattern", every);
  for (const char* key : {"attention_bias", "mlp_bias", "norm_bias"}) {
    TRY_ASSIGN(const bool is_on, config.flag(key, false));
    if (is_on) return config.unexpected_value(key, "false", ErrorCode::kUnsupported);
  }
  return {};
}

}  // namespace

Result<uint32_t> read_encoder(const JsonObject& config, const FamilyFolder& of, GgufKeys& keys,
                              Metadata& metadata) {
  const auto& [family, type] = of;
  keys.flag("attention.causal", false);
  if (family->encoder->has_rms_norms) return 0;
  const bool is_modern = config.find("norm_eps") != nullptr;
  TRY_ASSIGN(const auto eps, config.real(is_modern ? "norm_eps" : "layer_norm_eps"));
  if (!eps) return config.unexpected_value("layer_norm_eps", "a number");
  if (is_modern) TRY(read_local_attention(config, keys));
  keys.real("attention.layer_norm_epsilon", *eps);
  for (const char* key : {"is_decoder", "add_cross_attention"}) {
    TRY_ASSIGN(const bool is_on, config.flag(key, false));
    if (is_on) return config.unexpected_value(key, "false", ErrorCode::kUnsupported);
  }
  TRY_ASSIGN(const auto positions, config.text("position_embedding_type"));
  if (positions.value_or("absolute") != "absolute") {
    return config.unexpected_value("position_embedding_type", "absolute", ErrorCode::kUnsupported);
  }
  TRY_ASSIGN(const auto n_types, config.number("type_vocab_size"));
  if (n_types.value_or(0) > kMaxLabels) {
    return config.unexpected_value("type_vocab_size", fmt::format("at most {}", kMaxLabels));
  }
  if (n_types) metadata.insert("tokenizer.ggml.token_type_count", *n_types);
  TRY(read_labels(config, keys));
  if (!type->has_padding_positions) return 0;
  TRY_ASSIGN(const auto padding, config.number("pad_token_id"));
  return static_cast<uint32_t>(std::min(padding.value_or(0), kMaxContext)) + 1;
}

Result<void> add_pooling(const std::string& folder, const FolderConfig& config,
                         Metadata& metadata) {
  const std::string key = config.architecture + ".pooling_type";
  if (metadata.contains(key)) return {};
  TRY_ASSIGN(const std::vector<Module> modules, read_modules(folder));
  for (const Module& module : modules) {
    if (module.kind == "Transformer" || module.kind == "Normalize") continue;
    if (module.kind == kDenseModule && config.type->has_dense_modules) continue;
    if (module.kind == kLogitScore && config.architecture == kRerankerFamily) continue;
    if (module.kind != kPoolingModule) {
      return fail(
          ErrorCode::kUnsupported,
          fmt::format("modules.json: module {} is not supported, expected Transformer, "
                      "Pooling{} and Normalize",
                      quoted(module.type), config.type->has_dense_modules ? ", Dense" : ""));
    }
    TRY_ASSIGN(const uint64_t pooling, read_mode(folder, module));
    metadata.insert(key, pooling);
  }
  return {};
}

}  // namespace kvik::hf
