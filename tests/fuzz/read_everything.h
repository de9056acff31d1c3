#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
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
    source.release(i);
    const uint64_t n_parts = source.tensors()[i].shape.front();
    const uint64_t n_bytes = source.tensors()[i].n_bytes / std::max<uint64_t>(1, n_parts);
    for (uint64_t part = 0; part < std::min<uint64_t>(n_parts, 64); ++part) {
      const auto range = source.read_range(i, part * n_bytes, n_bytes);
      CHECK(range.value().size() == n_bytes);
      sum += std::to_integer<size_t>(range->empty() ? std::byte{} : range->back());
    }
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
