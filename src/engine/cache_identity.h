#pragma once

#include "kv/cache_identity.h"
#include "model/model.h"
#include "tensor/kv_type.h"

namespace kvik {

// Returns the identity of the pages that an engine with this model and KV type computes.
inline CacheIdentity identity_of(const Model& model, KvType kv_type) {
  return {.model = model.fingerprint(),
          .kv_type = name_of(kv_type),
          .layout_version = page_layout_version(kv_type),
          .numerics = model.numerics()};
}

}  // namespace kvik
