#include "format/hf/keys/switch_keys.h"

#include <fmt/format.h>

#include <utility>

#include "catalogue/limits.h"
#include "format/hf/keys/config_file.h"

namespace kvik::hf {
namespace {

constexpr const char* kSwitchLayers = "num_hidden_layers";

}  // namespace

Result<boost::json::value> with_switch_keys(boost::json::value config) {
  TRY_ASSIGN(const JsonObject stated, JsonObject::of(config, kConfigFile));
  const uint32_t n_of_switch = stated.find("ms_code_m") ? 2 : 1;
  TRY_ASSIGN(const uint32_t n_layers, stated.count(kSwitchLayers, kMaxLayers));
  if (n_layers <= n_of_switch) {
    return stated.unexpected_value(kSwitchLayers,
                                   fmt::format("more than the {} of the switch", n_of_switch),
                                   ErrorCode::kCorrupt);
  }
  config.get_object()[kSwitchLayers] = n_layers - n_of_switch;
  return config;
}

Result<void> read_switch(const JsonObject& config, GgufKeys& keys) {
  TRY_ASSIGN(const uint32_t n_adapters, config.count("num_adapters", kMaxExperts));
  TRY_ASSIGN(const uint32_t rank, config.count("max_lora_rank", kMaxDim));
  keys.number("adapters.count", n_adapters);
  keys.number("adapters.lora_rank", rank);
  constexpr std::pair<const char*, const char*> kLists[] = {
      {"adapter_token_ids", "adapters.token_ids_activate"},
      {"adapter_substitute_token_ids", "adapters.token_ids_substitute"}};
  for (const auto& [name, gguf] : kLists) {
    TRY_ASSIGN(auto tokens, config.numbers(name));
    if (tokens.size() != n_adapters && tokens.size() != n_adapters + size_t{1}) {
      return config.unexpected_value(name,
                                     fmt::format("a token for each of {} adapters", n_adapters));
    }
    keys.numbers(gguf, std::move(tokens));
  }
  return {};
}

}  // namespace kvik::hf
