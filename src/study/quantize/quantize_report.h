#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "study/quantize/quantizer.h"

namespace kvik {

// What `kvik quantize` says once a file is written.
struct QuantizeReport {
  std::string in, out;
  std::string type;
  uint64_t n_bytes = 0;  // of the file
  std::span<const QuantizedTensor> tensors = {};
};

// Size and error of every tensor, of each type and of all; and which tensors fell back.
std::string report_text(const QuantizeReport& report);
std::string report_json(const QuantizeReport& report);

}  // namespace kvik
