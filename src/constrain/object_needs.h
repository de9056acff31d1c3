#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "constrain/grammar_parts.h"

namespace kvik::constrain {

// Where an object stands: what it has of properties and witnesses, and what it still must have.
struct ObjectPlace {
  std::span<const uint32_t> seen;     // bits
  std::span<const uint32_t> missing;  // bits: required and not seen
  uint32_t witnesses = 0;             // seen
};

// How many properties it still needs at least; nothing where no number is enough. What a property
// that is no more than a witness needs in its turn does not count.
std::optional<uint32_t> n_needed(const GrammarParts& parts, const ObjectParts& object,
                                 const ObjectPlace& place);

}  // namespace kvik::constrain
