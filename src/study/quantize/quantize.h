#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/load_model.h"

namespace kvik {

struct QuantizeOptions {
  ModelOptions model;
  std::string out;
  std::string type;  // a MixTarget's, or f32
  std::string importance;
  std::string calibrate;
  std::optional<uint64_t> n_windows;
  bool pure = false;
  bool force = false;
  bool as_json = false;
};

// How a caller may end it early.
struct QuantizeProgress {
  std::function<void()> on_begin;  // from here on there is something to clear away
  std::function<bool()> goes_on;   // asked again and again; false ends with kUnavailable
};

// Writes a model's weights, with what options.model.adapter adds to them, in another type, or what
// they meet in a text; the report.
Result<std::string> quantize(const QuantizeOptions& options, const QuantizeProgress& progress);

}  // namespace kvik
