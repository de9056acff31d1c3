#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "format/importance.h"
#include "host/load_model.h"

namespace kvik {

struct Calibration {
  ModelOptions model;                      // its n_ctx: tokens of a window, 0: 512
  std::string text;                        // a file
  std::optional<uint64_t> n_windows = {};  // the first so many; absent: all
};

// Lets a model read a text, window by window, and gathers what its matrices meet. Errors: those of
// loading, kInvalidArgument where the text has not one window.
Result<Importance> calibrate(const Calibration& calibration);

}  // namespace kvik
