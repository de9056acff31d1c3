#pragma once

#include <cstddef>
#include <string>

#include "base/check.h"
#include "format/model_source.h"

namespace kvik {

// Reads all that a source says it has, so that a sanitizer sees what lies outside.
inline size_t read_everything(ModelSource& source) {
  size_t sum = source.metadata().values().size();
  for (size_t i = 0; i < source.tensors().size(); ++i) {
    CHECK(!source.name_in_file(i).empty());
    const auto bytes = source.read(i);
    if (!bytes) continue;
    CHECK(bytes->size() == source.tensors()[i].n_bytes);
    for (const std::byte b : *bytes) sum += std::to_integer<size_t>(b);
    const auto parts = source.read_parts(i, source.tensors()[i].shape.front());
    for (const auto& part : parts.value())
      sum += std::to_integer<size_t>(part.empty() ? std::byte{} : part.back());
    source.release(i);
  }
  return sum;
}

// One sentence, in one line.
inline void check_error(const Error& error) {
  CHECK(!error.message.empty());
  CHECK(error.message.find('\n') == std::string::npos);
}

}  // namespace kvik
