#pragma once

#include <boost/json/value.hpp>
#include <functional>
#include <string>

#include "base/result.h"
#include "text/hf/words.h"

namespace kvik::hf {

// One step, or a sequence of them, that cuts words into smaller ones and may rewrite them:
// "pre_tokenizer" of a tokenizer.json. Any thread.
using PreTokenizerStep = std::function<void(Words&)>;

// Null where the file has none. Errors: kUnsupported for another type, kCorrupt.
Result<PreTokenizerStep> read_pre_tokenizer(const boost::json::value* value,
                                            const std::string& path);

}  // namespace kvik::hf
