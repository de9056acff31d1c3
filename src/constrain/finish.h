#pragma once

#include "base/result.h"

namespace kvik::constrain {

struct GrammarParts;

// Computes which nodes match the empty text and which match any text at all, and converts the
// object forms to ObjectParts. Returns the errors of Builder::finish().
Result<void> finish_parts(GrammarParts& parts);

}  // namespace kvik::constrain
