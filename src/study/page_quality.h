#pragma once

#include <string>

#include "tensor/kv_type.h"

namespace kvik {

// The quality of a KV type on trained models: mean KL divergence of the next token's distribution
// from that with f32 pages, in nats: the worst of two or three models and two texts
// (docs/design/attention.md, "Bases of int8 and int4 pages"), rounded up. Latent K was not
// measured.
struct PageQuality {
  const char* name;
  double divergence;
};

// Returns the measured quality of a type.
PageQuality quality_of(KvType type);

// "near lossless: KL 0.0003"
std::string quality_text(KvType type);

}  // namespace kvik
