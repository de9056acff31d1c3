#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "format/importance.h"
#include "host/load_model.h"

namespace kvik {

struct Calibration {
  ModelOptions model;                      // its n_ctx is the window size in tokens; 0: 512
  std::string text;                        // path of the text file
  std::optional<uint64_t> n_windows = {};  // number of windows from the beginning; absent: all
};

// Evaluates a model on a text, one window at a time, and collects the importance of the columns of
// its matrices. Errors: those of loading; kInvalidArgument if the text is shorter than one window.
Result<Importance> calibrate(const Calibration& calibration);

}  // namespace kvik
