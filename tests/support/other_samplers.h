#pragma once

#include <cstdint>
#include <memory>

#include "engine/request/sampling_params.h"

namespace kvik {

inline constexpr uint32_t kOtherSamplers = 9;

// Turns on one of kOtherSamplers samplers, or combinations of them, for vocabularies of at least 20
// tokens.
inline void add_other_sampler(SamplingParams& p, uint32_t which) {
  switch (which % kOtherSamplers) {
    case 0:
      p.typical_p = 0.8f;
      return;
    case 1:
      p.xtc = {.probability = 0.5f, .threshold = 0.02f};
      return;
    case 2:
      p.mirostat = {.version = 2, .tau = 4, .eta = 0.3f};
      return;
    case 3:
      p.mirostat = {.version = 1, .tau = 3, .eta = 0.2f};
      return;
    case 4:
      p.dry = {.multiplier = 2, .base = 1.5f, .allowed_length = 1};
      p.dry.breakers =
          std::make_shared<const DryBreakers>(DryBreakers{{3, {{}}}, {5, {{7}, {8, 9}}}});
      return;
    case 5:
      p.top_n_sigma = 1.5f;
      p.dynamic_temperature = {.range = 0.6f, .exponent = 0.8f};
      return;
    case 6:
      p.repetition_penalty = 1.4f;
      p.frequency_penalty = 0.3f;
      p.penalty_last_n = 8;
      return;
    case 7:
      for (TokenId id = 0; id < 15; ++id) {
        p.banned.push_back({id});
        p.banned.push_back({id + 1, id + 2, id + 3});
      }
      return;
    default:
      p.order = {SamplerKind::kTemperature, SamplerKind::kDry, SamplerKind::kPenalties,
                 SamplerKind::kXtc, SamplerKind::kTypicalP};
      p.dry.multiplier = 1;
      p.presence_penalty = 0.5f;
      p.penalty_last_n = 30;
      p.xtc.probability = 0.9f;
      p.typical_p = 0.9f;
  }
}

}  // namespace kvik
