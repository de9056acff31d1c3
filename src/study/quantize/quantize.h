#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/load_model.h"

namespace kvik {

// The options of `kvik quantize`.
struct QuantizeOptions {
  ModelOptions model;
  std::string out;
  std::string type;  // name of a MixTarget, or f32
  std::string importance;
  std::string calibrate;
  std::optional<uint64_t> n_windows;
  bool pure = false;
  bool force = false;
  bool as_json = false;
};

// Callbacks for progress and cancellation.
struct QuantizeProgress {
  // called when output begins; from then on a partial file may exist
  std::function<void()> on_begin;
  std::function<bool()> goes_on;  // called repeatedly; false cancels with kUnavailable
};

// Writes the weights of a model, including options.model.adapter, in another type; or writes the
// importance measured on a text. Returns the report.
Result<std::string> quantize(const QuantizeOptions& options, const QuantizeProgress& progress);

}  // namespace kvik
