#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "constrain/grammar_parts.h"

namespace kvik::constrain {

// The progress of an object: which properties and witnesses are present, and which properties are
// missing.
struct ObjectProgress {
  std::span<const uint32_t> seen;     // bits of the properties present
  std::span<const uint32_t> missing;  // bits of the properties that are required and not present
  uint32_t witnesses = 0;             // bits of the witnesses present
};

// Returns the minimum number of properties that the object still needs; std::nullopt if it cannot
// be completed. Ignores the needs of properties that are added only as witnesses.
std::optional<uint32_t> n_needed(const GrammarParts& parts, const ObjectParts& object,
                                 const ObjectProgress& place);

}  // namespace kvik::constrain
