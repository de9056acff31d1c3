#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/token_id.h"

namespace kvik {

// "Exclude top choices": with `probability`, removes all tokens as likely as `threshold` except the
// least likely of them.
struct XtcParams {
  float probability = 0;   // 0: off
  float threshold = 0.1f;  // above 0.5: off
};

// Temperature between temperature − range and temperature + range, by the entropy of the
// candidates.
struct DynamicTemperature {
  float range = 0;  // 0: off
  float exponent = 1;
};

// Mirostat (Basu et al. 2021) replaces all other samplers except the temperature.
struct MirostatParams {
  uint32_t version = 0;  // 0: off; 1 or 2
  float tau = 5;         // target surprise in bits
  float eta = 0.1f;      // learning rate
};

// By the first token of a text that ends repetitions: the tokens that follow it.
using DryBreakers = std::unordered_map<TokenId, std::vector<std::vector<TokenId>>>;

// "Don't repeat yourself": a token that would continue a repetition of n tokens, at least
// allowed_length, loses multiplier · base^(n − allowed_length) of its logit.
struct DryParams {
  float multiplier = 0;  // 0: off
  float base = 1.75f;
  uint32_t allowed_length = 2;
  uint32_t last_n = UINT32_MAX;  // number of tokens that are searched; UINT32_MAX: all
  std::shared_ptr<const DryBreakers> breakers = {};

  bool is_on() const { return multiplier != 0 && last_n != 0; }
};

// The samplers whose order can be chosen.
enum class SamplerKind : uint8_t {
  kPenalties,
  kDry,
  kTopNSigma,
  kTopK,
  kTypicalP,
  kTopP,
  kMinP,
  kXtc,
  kTemperature
};

// Parameters of sampling. The defaults do not change the model's distribution.
struct SamplingParams {
  float temperature = 1.0f;         // 0: greedy
  uint32_t top_k = 0;               // 0: off
  float top_p = 1.0f;               // in (0, 1]
  float min_p = 0.0f;               // in [0, 1], relative to the most likely token
  float typical_p = 1.0f;           // in [0, 1]; 1: off (Meister et al. 2022)
  float top_n_sigma = 0.0f;         // at most 0: off (Tang et al. 2024)
  float repetition_penalty = 1.0f;  // > 0; over prompt and answer (Keskar et al. 2019)
  float presence_penalty = 0.0f;    // over the answer, as defined by OpenAI
  float frequency_penalty = 0.0f;
  // Number of newest tokens, of prompt and answer, that all three penalties count, as llama.cpp
  // does; UINT32_MAX: each counts as described above.
  uint32_t penalty_last_n = UINT32_MAX;
  XtcParams xtc = {};
  DynamicTemperature dynamic_temperature = {};
  MirostatParams mirostat = {};
  DryParams dry = {};
  std::vector<std::pair<TokenId, float>> logit_bias = {};
  // Token sequences that the answer must not contain, none of them empty.
  std::vector<std::vector<TokenId>> banned = {};
  std::optional<std::vector<SamplerKind>> order = {};  // absent: see Sampler
  uint64_t seed = 0;          // the same seed gives the same tokens, whatever else is in the batch
  uint32_t choice_index = 0;  // index among `n` choices; choices of one seed differ
};

// Returns whether tokens are penalized by how often they have occurred.
inline bool has_penalties(const SamplingParams& p) {
  return p.penalty_last_n != 0 &&
         (p.repetition_penalty != 1 || p.presence_penalty != 0 || p.frequency_penalty != 0);
}

// Returns whether the samplers run one by one in an order, instead of in the fixed order of the
// most frequent ones.
inline bool runs_in_order(const SamplingParams& p) {
  return p.order || p.typical_p < 1 || p.top_n_sigma > 0 || p.xtc.probability > 0 ||
         p.dynamic_temperature.range > 0 || p.mirostat.version != 0;
}

// Returns whether the next token with temperature 0 is that of the model's largest logit.
inline bool keeps_argmax(const SamplingParams& p) {
  return p.logit_bias.empty() && p.banned.empty() && !has_penalties(p) && !p.dry.is_on() &&
         !runs_in_order(p);
}

}  // namespace kvik
