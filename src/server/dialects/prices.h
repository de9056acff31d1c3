#pragma once

#include "service/service_api.h"

namespace kvik {

// Prices of a million tokens in the operator's currency.
struct Prices {
  double input = 0;   // computed prompt tokens
  double cached = 0;  // cached prompt tokens
  double output = 0;

  double cost_of(uint64_t n_computed, uint64_t n_cached, uint64_t n_output) const {
    const auto price = [](double of_million, uint64_t n) {
      return of_million * static_cast<double>(n) / 1e6;
    };
    return price(input, n_computed) + price(cached, n_cached) + price(output, n_output);
  }
  double cost_of(const Usage& usage) const {
    return cost_of(usage.prompt_tokens - usage.cached_tokens, usage.cached_tokens,
                   usage.completion_tokens);
  }
};

}  // namespace kvik
