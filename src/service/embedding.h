#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request/request.h"
#include "tensor/op_kinds.h"

namespace kvik {

// A request for the embedding of one text.
struct EmbeddingRequest {
  using Pooling = kvik::Pooling;

  // Divisor of the pooled vector: none, its largest absolute value / 32760, or the p-norm with
  // p ≥ 1 (2: its length).
  struct Norm {
    enum class Kind { kNone, kMaxInt16, kP } kind = Kind::kP;
    double p = 2;
  };

  Request engine;  // prompt, cache salt, tenant and priority, passed to the engine
  // Pooling of the hidden states after the last norm; absent: the model's own (ModelCard::pooling),
  // or the mean, the better choice for models that were not trained for embeddings. With kRank, the
  // result is the scores of the model's classifier.
  std::optional<Pooling> pooling;
  Norm norm;
  // Longer texts are cut to this number of tokens; 0: to the context. Absent: they are an error.
  std::optional<uint32_t> truncate_to;
  uint32_t n_end_tokens = 0;          // last tokens of the prompt, which stay when it is cut
  std::string_view first_field = {};  // of a pair: field of the body with its first text
  // Number of leading dimensions to return; absent: all. The truncated vector is normalized to
  // length 1 again. Models trained for truncation lose little accuracy (Kusupati et al. 2022);
  // others may lose more.
  std::optional<uint32_t> n_dims;
  std::optional<std::string> model;
};

// The message for results with NaN or infinity, which damaged weights or an overflow cause.
inline constexpr std::string_view kNotFinite =
    "the model computed values that are not finite numbers";
inline bool are_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

// Receives the result of an EmbeddingRequest. Called once, on the engine thread; must not block.
class EmbeddingSink {
 public:
  virtual ~EmbeddingSink() = default;
  // `embedding` is divided by its norm; nullopt if the request did not complete.
  virtual void on_embedding(std::optional<std::vector<float>> embedding, const Usage& usage) = 0;
};

}  // namespace kvik
