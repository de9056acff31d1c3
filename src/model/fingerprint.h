#pragma once

#include <set>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "format/model_source.h"

namespace kvik {

// Fingerprint of a model: SHA-256 over the metadata, the tensor table and the digests of all
// tensors in the order of loading. Two models have the same fingerprint exactly if the same tokens
// give the same K and V with the same code.
class Fingerprint {
 public:
  // Adds the metadata and the tensor table.
  explicit Fingerprint(const ModelSource& source);

  void add_tensors(const Hash128& digest);

  // Returns 64 hexadecimal digits. Call once, after all tensors were added.
  std::string finish();

 private:
  Sha256 sha_;
};

// Returns an identifier of everything except the model file that the bits of a forward pass depend
// on: a hash of the sources of tensor, backend and model and of the compiler flags
// (cmake/numerics.cmake); the version of the C library, which computes the sines of the rotary
// embedding; and `arithmetics`, the names of arithmetics that differ among instruction sets
// (Backend::arithmetic()) and of variants that the loader chose (such as the long RoPE divisors).
std::string numerics(const std::set<std::string_view>& arithmetics);

}  // namespace kvik
