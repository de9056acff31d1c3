#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace kvik {

// A progress bar on stderr if that is a terminal. Removed when it is complete or destroyed.
class ProgressBar {
 public:
  explicit ProgressBar(std::string_view what);
  ~ProgressBar() { close(); }

  // Draws `done` of `all`, followed by `note`, if the bar would look different. A different note is
  // drawn at most four times a second.
  void show(uint64_t done, uint64_t all, const std::string& note);

 private:
  void close();

  const std::string what_;
  const bool is_terminal_;
  bool is_open_ = false;
  uint64_t shown_ = UINT64_MAX;
  std::string note_;
  TimePoint drawn_{};
};

}  // namespace kvik
