#pragma once

#include "base/result.h"

namespace kvik::constrain {

struct GrammarParts;

// Computes which nodes may be empty and which have a text at all, and converts object forms to the
// form used for matching. Errors as for Builder::finish().
Result<void> finish_parts(GrammarParts& parts);

}  // namespace kvik::constrain
