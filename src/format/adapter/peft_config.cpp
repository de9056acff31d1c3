#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/json/json_object.h"
#include "format/adapter/peft_adapter.h"
#include "format/quoted.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr const char* kFile = "adapter_config.json";

// Keys with unsupported effects on the computation: they must be absent, null, false or empty.
struct Refused {
  std::string_view key, expected;
};
constexpr Refused kRefused[] = {
    {"lora_bias", "false: LoRA biases are not supported"},
    {"fan_in_fan_out", "false: transposed matrices are not supported"},
    {"use_qalora", "false: QA-LoRA is not supported"},
    {"use_bdlora", "false: block-diagonal adapters are not supported"},
    {"layer_replication", "none: layers are not repeated here"},
    {"trainable_token_indices", "none: single tokens are not trained here"},
    {"alora_invocation_tokens", "none: activated LoRA (aLoRA) is not supported"},
    {"arrow_config", "none: Arrow routing is not supported"},
};

// Initializations that move a part of the base model's weights into the adapter, which would have
// to be subtracted from the base model.
constexpr std::string_view kMovingBegins[] = {"pissa", "olora", "corda", "loftq"};

bool is_nothing(const json::value& value) {
  if (const bool* flag = value.if_bool()) return !*flag;
  if (const json::array* list = value.if_array()) return list->empty();
  if (const json::object* object = value.if_object()) return object->empty();
  return false;
}

Result<void> refuse(const JsonObject& config) {
  TRY_ASSIGN(const auto type, config.text("peft_type"));
  if (type != "LORA") {
    return config.unexpected_value("peft_type", "\"LORA\"", ErrorCode::kUnsupported);
  }
  for (const Refused& refused : kRefused) {
    const json::value* value = config.find(refused.key);
    if (!value || is_nothing(*value)) continue;
    return config.unexpected_value(refused.key, refused.expected, ErrorCode::kUnsupported);
  }
  TRY_ASSIGN(const auto bias, config.text("bias"));
  if (bias.value_or("none") != "none") {
    return config.unexpected_value("bias", "\"none\": LoRA biases are not supported",
                                   ErrorCode::kUnsupported);
  }
  TRY_ASSIGN(const auto saved, config.texts("modules_to_save"));
  for (const std::string_view module : saved) {
    const std::string_view name = module.substr(module.rfind('.') + 1);
    if (name == "embed_tokens" || name == "lm_head") continue;
    return config.unexpected_value("modules_to_save", "none but embed_tokens and lm_head",
                                   ErrorCode::kUnsupported);
  }
  const json::value* begin = config.find("init_lora_weights");
  const json::string* how = begin ? begin->if_string() : nullptr;
  const auto begins = [&](std::string_view word) { return how && how->starts_with(word); };
  if (std::ranges::any_of(kMovingBegins, begins)) {
    return config.unexpected_value("init_lora_weights",
                                   "an adapter of the base as it is (converted when it was saved)",
                                   ErrorCode::kUnsupported);
  }
  return {};
}

Result<double> checked_alpha(const JsonObject& object, std::string_view key) {
  TRY_ASSIGN(const auto alpha, object.real(key));
  constexpr double kMaxAlpha = 1e6;
  if (alpha && std::abs(*alpha) <= kMaxAlpha) return *alpha;
  return object.unexpected_value(key, "a number from -1e6 to 1e6");
}

constexpr size_t kMaxPatterns = 16384;

// Reads "rank_pattern" or "alpha_pattern"; read(object, name) returns a value.
template <class T, class Read>
Result<std::vector<PeftConfig::OfModules<T>>> read_patterns(const JsonObject& config,
                                                            std::string_view key, Read read) {
  std::vector<PeftConfig::OfModules<T>> out;
  TRY_ASSIGN(const auto patterns, config.object(key));
  if (!patterns) return out;
  if (patterns->all().size() > kMaxPatterns) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{}: '{}' has {} names, expected at most {}", kFile, key,
                            patterns->all().size(), kMaxPatterns));
  }
  for (const auto& member : patterns->all()) {
    const std::string name(member.key());
    auto names = NamePattern::compile(name);
    if (!names) {
      return fail(names.error().code,
                  fmt::format("{}: '{}' has the key {}", kFile, key, names.error().message));
    }
    TRY_ASSIGN(const T value, read(*patterns, name));
    out.push_back({*std::move(names), value});
  }
  return out;
}

template <class T>
Result<T> value_for(const std::vector<PeftConfig::OfModules<T>>& patterns, std::string_view name,
                    T otherwise) {
  for (const auto& pattern : patterns) {
    TRY_ASSIGN(const bool is_saved, pattern.names.matches(name));
    if (is_saved) return pattern.value;
  }
  return otherwise;
}

// Parses "0.19.1.dev0" to {0, 19, 1}.
std::array<uint32_t, 3> read_version(std::string_view text) {
  std::array<uint32_t, 3> version{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (uint32_t& number : version) {
    const auto [rest, error] = std::from_chars(at, end, number);
    if (error != std::errc()) return {};
    at = rest;
    if (at == end || *at != '.') break;
    ++at;
  }
  return version;
}

}  // namespace

Result<uint32_t> PeftConfig::rank_of(std::string_view name) const {
  return value_for(ranks, name, rank);
}

Result<float> PeftConfig::scale_of(std::string_view name) const {
  TRY_ASSIGN(const double own, value_for(alphas, name, alpha));
  TRY_ASSIGN(const uint32_t of_module, rank_of(name));
  const double divisor = has_root_scale ? std::sqrt(static_cast<double>(of_module)) : of_module;
  return static_cast<float>(own / divisor);
}

bool PeftConfig::has_parameter(std::string_view name) const {
  return std::ranges::any_of(parameters, [&](std::string_view target) {
    if (!name.ends_with(target) || target.empty()) return false;
    return name.size() == target.size() || name[name.size() - target.size() - 1] == '.';
  });
}

bool PeftConfig::flips_stacks(ExpertStacks stacks) const {
  using Version = std::array<uint32_t, 3>;
  if (written_by >= Version{0, 19, 1}) return false;
  return stacks == ExpertStacks::kUsual || written_by >= Version{0, 19, 0};
}

Result<PeftConfig> read_peft_config(std::string_view text) {
  TRY_ASSIGN(const auto parsed, parse_json_file(text, kFile));
  TRY_ASSIGN(const auto config, JsonObject::of(parsed, kFile));
  TRY(refuse(config));
  PeftConfig out;
  TRY_ASSIGN(out.rank, config.count("r", kMaxAdapterRank));
  TRY_ASSIGN(out.alpha, checked_alpha(config, "lora_alpha"));
  TRY_ASSIGN(const auto has_root_scale, config.flag("use_rslora"));
  out.has_root_scale = has_root_scale.value_or(false);
  TRY_ASSIGN(const auto has_magnitudes, config.flag("use_dora"));
  out.has_magnitudes = has_magnitudes.value_or(false);
  TRY_ASSIGN(const auto base_name, config.text("base_model_name_or_path"));
  out.base_name = base_name.value_or("");
  TRY_ASSIGN(out.parameters, config.texts("target_parameters"));
  TRY_ASSIGN(out.saved_modules, config.texts("modules_to_save"));
  TRY_ASSIGN(const auto version, config.text("peft_version"));
  out.written_by = read_version(version.value_or(""));
  TRY_ASSIGN(out.ranks,
             read_patterns<uint32_t>(config, "rank_pattern", [](const auto& object, auto& name) {
               return object.count(name, kMaxAdapterRank);
             }));
  TRY_ASSIGN(out.alphas,
             read_patterns<double>(config, "alpha_pattern", [](const auto& object, auto& name) {
               return checked_alpha(object, name);
             }));
  return out;
}

}  // namespace kvik
