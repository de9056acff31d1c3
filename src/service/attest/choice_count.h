#pragma once

#include <cstdint>

#include "base/hash.h"

namespace kvik {

// Returns the hash with which the chains of n choices of a request begin (LogitsChain): a file that
// names another number of choices than the server computed differs from the first token on.
// `request`: hash_of() the request.
Hash128 with_choices(const Hash128& request, uint32_t n_choices);

}  // namespace kvik
