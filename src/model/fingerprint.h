#pragma once

#include <set>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "format/model_source.h"

namespace kvik {

// What is the same for two models exactly where the same tokens give the same K and V by the same
// code: SHA-256 over the metadata, the tensor table and the digests of all tensors, taken in the
// order of loading.
class Fingerprint {
 public:
  // Takes the metadata and the tensor table.
  explicit Fingerprint(const ModelSource& source);

  void add_tensors(const Hash128& digest);

  // Once, when all tensors are added: 64 hexadecimal digits.
  std::string finish();

 private:
  Sha256 sha_;
};

// What the bits of a forward pass depend on beside the model: a hash of the sources of tensor,
// backend and model with the compiler's flags (cmake/numerics.cmake), the C library, whose sines
// turn the heads, and the arithmetics of the weights' types that are not everybody's
// (Backend::arithmetic).
std::string numerics(const std::set<std::string_view>& arithmetics);

}  // namespace kvik
