#pragma once

#include <boost/json/value.hpp>

#include "base/result.h"

namespace kvik::hf {

// Gives the keys that Step 3.5 states for each layer the form that other models have: numbers of
// heads, RoPE of layers with and without a window, and kinds of MLPs. Lists may also have entries
// for MTP layers, which are left out. Errors: kUnsupported for a value that the family does not
// have, kCorrupt for an impossible one.
Result<boost::json::value> with_step_keys(boost::json::value config);

}  // namespace kvik::hf
