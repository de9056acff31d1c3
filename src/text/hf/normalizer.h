#pragma once

#include <boost/json/value.hpp>
#include <functional>
#include <string>

#include "base/result.h"

namespace kvik::hf {

// One step, or a sequence of them, that changes a text before it is cut: "normalizer" of a
// tokenizer.json. Takes and gives UTF-8. Any thread.
using Normalizer = std::function<std::string(std::string)>;

// Null where the file has none (`value` is null). Errors: kUnsupported for another type, kCorrupt.
Result<Normalizer> read_normalizer(const boost::json::value* value, const std::string& path);

}  // namespace kvik::hf
