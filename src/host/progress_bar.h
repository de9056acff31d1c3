#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvik {

// A bar on stderr where that is a terminal, nothing in a log. Gone when it is full, or destroyed.
class ProgressBar {
 public:
  explicit ProgressBar(std::string_view what);
  ~ProgressBar() { close(); }

  // Draws `done` of `all`, with `note` behind it; only where the bar would look another.
  void show(uint64_t done, uint64_t all, const std::string& note);

 private:
  void close();

  const std::string what_;
  const bool is_terminal_;
  bool is_open_ = false;
  uint64_t shown_ = UINT64_MAX;
};

}  // namespace kvik
