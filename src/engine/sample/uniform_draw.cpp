#include "engine/sample/uniform_draw.h"

namespace kvik {
namespace {

uint64_t mix(uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

double uniform_draw(uint64_t seed, uint32_t choice_index, uint64_t position) {
  const uint64_t bits = mix(mix(mix(seed) ^ choice_index) ^ position);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace kvik
