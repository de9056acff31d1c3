#pragma once

#include <boost/json/value.hpp>
#include <memory>
#include <string>

#include "base/result.h"

namespace kvik::hf {

// One step, or a sequence of them, that changes a text before it is cut: "normalizer" of a
// tokenizer.json. Takes and gives UTF-8. Immutable: any thread.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual std::string apply(std::string text) const = 0;
};

// Null where the file has none (`value` is null). Errors: kUnsupported for another type, kCorrupt.
Result<std::unique_ptr<Normalizer>> read_normalizer(const boost::json::value* value,
                                                    const std::string& path);

}  // namespace kvik::hf
