#pragma once

#include "base/result.h"

namespace kvik::constrain {

struct GrammarParts;

// Finds out which nodes may be empty and which have a text at all, and makes object forms into what
// is matched by. Errors as Builder::finish().
Result<void> finish_parts(GrammarParts& parts);

}  // namespace kvik::constrain
