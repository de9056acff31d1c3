#pragma once

#include <boost/json/value.hpp>

#include "base/json/json_object.h"
#include "base/result.h"
#include "format/hf/gguf_keys.h"

namespace kvik::hf {

// Takes from the number of layers of a Granite Switch those of the switch itself, which have no
// weights: one, or two with the keys of the newer one.
Result<boost::json::value> with_switch_keys(boost::json::value config);

// Reads the adapters and the tokens that choose them (AdapterSwitch).
Result<void> read_switch(const JsonObject& config, GgufKeys& keys);

}  // namespace kvik::hf
