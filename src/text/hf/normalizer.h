#pragma once

#include <boost/json/value.hpp>
#include <functional>
#include <string>

#include "base/result.h"

namespace kvik::hf {

// "normalizer" of a tokenizer.json: a function that changes a text before it is split. Input and
// output are UTF-8. Thread-safe.
using Normalizer = std::function<std::string(std::string)>;

// Reads a normalizer. Returns null if `value` is null. Errors: kUnsupported for an unknown type,
// kCorrupt.
Result<Normalizer> read_normalizer(const boost::json::value* value, const std::string& path);

}  // namespace kvik::hf
