#pragma once

#include "base/result.h"

namespace kvik::grammar {

struct GrammarParts;

// Finds out which nodes may be empty and which have a text at all, and makes object forms into what
// is matched by. Errors as Builder::finish().
Result<void> finish_parts(GrammarParts& parts);

}  // namespace kvik::grammar
