#pragma once

#include <string>

#include "tensor/kv_type.h"

namespace kvik {

// The quality of a KV type, measured on trained models: the mean KL divergence of the next token's
// distribution from that with f32 pages, in nats. It is the worst of two or three models and two
// texts, rounded up (docs/design/attention.md, "Bases of int8 and int4 pages"). Latent K was not
// measured.
struct PageQuality {
  const char* name;
  double divergence;
};

// Returns the measured quality of a type.
PageQuality quality_of(KvType type);

// Returns the quality as text, such as "near lossless: KL 0.0003".
std::string quality_text(KvType type);

}  // namespace kvik
