#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <cmath>
#include <utility>

#include "format/adapter/peft_adapter.h"
#include "format/hf/json_object.h"
#include "format/quoted.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr const char* kFile = "adapter_config.json";

// Keys that change what an adapter computes in ways that are not known here: they may be absent,
// null, false, or empty.
struct Refused {
  std::string_view key, expected;
};
constexpr Refused kRefused[] = {
    {"use_dora", "false: DoRA is not known here"},
    {"lora_bias", "false: biases of adapters are not known here"},
    {"fan_in_fan_out", "false: transposed matrices are not known here"},
    {"use_qalora", "false: QA-LoRA is not known here"},
    {"use_bdlora", "false: block-diagonal adapters are not known here"},
    {"modules_to_save", "none: whole modules are no adapters"},
    {"layer_replication", "none: layers are not repeated here"},
    {"trainable_token_indices", "none: single tokens are not trained here"},
    {"target_parameters", "none: adapters of stacked parameters are not known here"},
    {"alora_invocation_tokens", "none: adapters that begin at a token are not known here"},
    {"arrow_config", "none: adapters that choose each other are not known here"},
};

// Ways to begin that move a part of the base's weights into the adapter, which would have to be
// taken out of the base.
constexpr std::string_view kMovingBegins[] = {"pissa", "olora", "corda", "loftq"};

bool is_nothing(const json::value& value) {
  if (const bool* flag = value.if_bool()) return !*flag;
  if (const json::array* list = value.if_array()) return list->empty();
  if (const json::object* object = value.if_object()) return object->empty();
  return false;
}

Result<void> refuse(const hf::JsonObject& config) {
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
    return config.unexpected_value("bias", "\"none\": biases of adapters are not known here",
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

// Names are taken as they stand: an expression could match other modules than it was meant to.
Result<void> check_pattern(std::string_view key, std::string_view name) {
  if (!name.empty() && name.find_first_of("\\^$*+?()[]{}|") == std::string_view::npos) return {};
  return fail(
      ErrorCode::kUnsupported,
      fmt::format("{}: '{}' names {}, expected plain names of modules", kFile, key, quoted(name)));
}

Result<double> checked_alpha(const hf::JsonObject& object, std::string_view key) {
  TRY_ASSIGN(const auto alpha, object.real(key));
  constexpr double kMostAlpha = 1e6;
  if (alpha && std::abs(*alpha) <= kMostAlpha) return *alpha;
  return object.unexpected_value(key, "a number from -1e6 to 1e6");
}

// The value of the longest name that the module's ends in; null: none does.
template <class T>
const T* find_pattern(const std::map<std::string, T>& patterns, std::string_view module) {
  const std::pair<const std::string, T>* found = nullptr;
  for (const auto& pattern : patterns) {
    const std::string_view name = pattern.first;
    if (!module.ends_with(name)) continue;
    const bool is_whole =
        module.size() == name.size() || module[module.size() - name.size() - 1] == '.';
    if (is_whole && (!found || name.size() > found->first.size())) found = &pattern;
  }
  return found ? &found->second : nullptr;
}

}  // namespace

uint32_t PeftConfig::rank_of(std::string_view module) const {
  const uint32_t* own = find_pattern(ranks, module);
  return own ? *own : rank;
}

float PeftConfig::scale_of(std::string_view module) const {
  const double* own = find_pattern(alphas, module);
  const double of_rank = rank_of(module);
  return static_cast<float>((own ? *own : alpha) / (has_root_scale ? std::sqrt(of_rank) : of_rank));
}

Result<PeftConfig> read_peft_config(std::string_view text) {
  TRY_ASSIGN(const auto parsed, hf::parse_json(text, kFile));
  TRY_ASSIGN(const auto config, hf::JsonObject::of(parsed, kFile));
  TRY(refuse(config));
  PeftConfig out;
  TRY_ASSIGN(out.rank, config.count("r", kMaxAdapterRank));
  TRY_ASSIGN(out.alpha, checked_alpha(config, "lora_alpha"));
  TRY_ASSIGN(const auto has_root_scale, config.flag("use_rslora"));
  out.has_root_scale = has_root_scale.value_or(false);
  TRY_ASSIGN(const auto base_name, config.text("base_model_name_or_path"));
  out.base_name = base_name.value_or("");
  TRY_ASSIGN(const auto ranks, config.object("rank_pattern"));
  if (ranks) {
    for (const auto& member : ranks->all()) {
      const std::string name(member.key());
      TRY(check_pattern("rank_pattern", name));
      TRY_ASSIGN(out.ranks[name], ranks->count(name, kMaxAdapterRank));
    }
  }
  TRY_ASSIGN(const auto alphas, config.object("alpha_pattern"));
  if (alphas) {
    for (const auto& member : alphas->all()) {
      const std::string name(member.key());
      TRY(check_pattern("alpha_pattern", name));
      TRY_ASSIGN(out.alphas[name], checked_alpha(*alphas, name));
    }
  }
  return out;
}

}  // namespace kvik
