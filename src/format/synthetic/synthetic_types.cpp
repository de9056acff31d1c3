#include <algorithm>
#include <vector>

#include "format/synthetic/synthetic_layout.h"

namespace kvik {
namespace {

// llama.cpp's mixes, in which some matrices have more bits.
constexpr SyntheticType kMixes[] = {
    {"q4_k_m", ElementType::kQ4_K, ElementType::kQ6_K, 15},
    {"q5_k_m", ElementType::kQ5_K, ElementType::kQ6_K, 17},
};

std::vector<SyntheticType> all_synthetic_types() {
  std::vector<SyntheticType> types(std::begin(kMixes), std::end(kMixes));
  for (const ElementTraits& t : element_types()) {
    if (t.file_type != kNoFileType) types.push_back({t.name, t.type, t.type, t.file_type});
  }
  std::ranges::stable_sort(types, {}, &SyntheticType::file_type);
  return types;
}

}  // namespace

std::span<const SyntheticType> synthetic_types() {
  static const std::vector<SyntheticType> kTypes = all_synthetic_types();
  return kTypes;
}

}  // namespace kvik
