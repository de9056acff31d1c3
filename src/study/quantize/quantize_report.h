#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "study/quantize/quantizer.h"

namespace kvik {

// The result of `kvik quantize` after a file was written.
struct QuantizeReport {
  std::string in, out;
  std::string type;
  uint64_t n_bytes = 0;  // size of the file
  std::span<const QuantizedTensor> tensors = {};
};

// Return the size and error of every tensor, of each type and in total, and the tensors that use a
// fallback type.
std::string report_text(const QuantizeReport& report);
std::string report_json(const QuantizeReport& report);

}  // namespace kvik
