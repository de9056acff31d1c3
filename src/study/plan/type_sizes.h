#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "format/model_source.h"

namespace kvik {

// What a model's weights would be in a file of some type.
struct TypeSize {
  std::string type;
  uint64_t n_bytes = 0;
  double bits_per_weight = 0;
};

// f32, and every type that `kvik quantize` makes, with its mix; from the tensor table alone.
std::vector<TypeSize> type_sizes(const ModelSource& source);

// A line for each, with whether so much memory holds it.
std::string type_sizes_text(std::span<const TypeSize> sizes, uint64_t memory_bytes);
// [{"type": …, "bytes": …, "bits_per_weight": …}, …]
std::string type_sizes_json(std::span<const TypeSize> sizes);

}  // namespace kvik
