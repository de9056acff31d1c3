#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace kvik {

// What a JSON text holds.
struct JsonWeight {
  uint64_t n_numbers = 0;
  uint64_t n_others = 0;  // strings, booleans, nulls, arrays, objects
  uint64_t text_bytes = 0;

  // What reading it takes at most, from the tree of values to the prompt.
  size_t memory_bytes() const;
};

// Looks over a request's body before anything is made of it, which takes no memory. A text that is
// no JSON has the weight of what stands before it breaks off: whoever reads it says why.
// Errors: kInvalidArgument for more values than a request may hold, kContextLength for more text
// than a context of so many tokens; `param` is the field of the body where that was.
Result<JsonWeight> weigh_json(std::string_view text, uint64_t n_ctx);

}  // namespace kvik
