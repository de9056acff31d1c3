#pragma once

#include <boost/json/value.hpp>
#include <functional>
#include <string>

#include "base/result.h"
#include "text/hf/words.h"

namespace kvik::hf {

// "pre_tokenizer" of a tokenizer.json: a function that splits words into smaller ones and may
// rewrite them. Thread-safe.
using PreTokenizerStep = std::function<void(Words&)>;

// Reads a pre-tokenizer. Returns null if the file has none. Errors: kUnsupported for an unknown
// type, kCorrupt.
Result<PreTokenizerStep> read_pre_tokenizer(const boost::json::value* value,
                                            const std::string& path);

}  // namespace kvik::hf
