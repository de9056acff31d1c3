#include "catalogue/families/granite.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "catalogue/limits.h"

namespace kvik::families {
namespace {

constexpr std::string_view kCount = "adapters.count";
constexpr std::string_view kControls = "adapters.token_ids_activate";
constexpr std::string_view kSubstitutes = "adapters.token_ids_substitute";
constexpr uint32_t kMaxAdapters = 4096;
constexpr uint32_t kMaxRank = 256;

// Returns a list of n tokens.
Result<std::vector<TokenId>> read_tokens(const KeyReader& keys, std::string_view key, size_t n,
                                         uint32_t n_vocab) {
  TRY_ASSIGN(const auto numbers, keys.integers(key, n));
  std::vector<TokenId> tokens;
  for (const uint64_t number : numbers) {
    if (number >= n_vocab) {
      return fail(ErrorCode::kCorrupt, fmt::format("'{}' lists the token {}, expected ids below {}",
                                                   keys.full(key), number, n_vocab));
    }
    tokens.push_back(static_cast<TokenId>(number));
  }
  return tokens;
}

}  // namespace

// A list with one token more than there are adapters begins with the token that ends them.
Result<void> finish_granite_switch(const KeyReader& keys, ModelConfig& config) {
  AdapterSwitch out;
  TRY_ASSIGN(out.n_adapters, keys.count(kCount, kMaxAdapters));
  TRY_ASSIGN(out.rank, keys.count("adapters.lora_rank", kMaxRank));
  const bool has_reset = keys.length(kControls) == out.n_adapters + size_t{1};
  const size_t n = out.n_adapters + size_t{has_reset};
  TRY_ASSIGN(const auto controls, read_tokens(keys, kControls, n, config.n_vocab));
  TRY_ASSIGN(const auto substitutes, read_tokens(keys, kSubstitutes, n, config.n_vocab));
  for (uint32_t i = 0; i < n; ++i) {
    const bool is_known =
        std::ranges::count(out.controls, controls[i], &AdapterSwitch::Control::token) > 0;
    if (is_known) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("'{}' lists the token {} twice", keys.full(kControls), controls[i]));
    }
    out.controls.push_back({controls[i], substitutes[i], has_reset ? i : i + 1});
  }
  config.adapter_switch = std::move(out);
  return {};
}

}  // namespace kvik::families
