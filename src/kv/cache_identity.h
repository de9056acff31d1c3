#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace kvik {

// All that K and V depend on besides the tokens. Only pages with equal identities can replace each
// other.
struct CacheIdentity {
  std::string model;            // fingerprint of the model
  std::string kv_type;          // name of the KV type
  uint32_t layout_version = 0;  // page_layout_version()
  std::string numerics;         // code and arithmetic that compute K and V

  // Returns the identity that root_key() expects.
  std::string text() const {
    return fmt::format("{}/{}/layout {}/{}", model, kv_type, layout_version, numerics);
  }

  friend bool operator==(const CacheIdentity&, const CacheIdentity&) = default;
};

}  // namespace kvik
