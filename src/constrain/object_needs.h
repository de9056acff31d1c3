#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "constrain/grammar_parts.h"

namespace kvik::constrain {

// Progress of an object: properties and witnesses present, and those still missing.
struct ObjectPlace {
  std::span<const uint32_t> seen;     // bits
  std::span<const uint32_t> missing;  // bits: required and not seen
  uint32_t witnesses = 0;             // seen
};

// Returns the minimum number of properties still needed; std::nullopt if no number suffices. The
// needs of a property that serves only as a witness are ignored.
std::optional<uint32_t> n_needed(const GrammarParts& parts, const ObjectParts& object,
                                 const ObjectPlace& place);

}  // namespace kvik::constrain
