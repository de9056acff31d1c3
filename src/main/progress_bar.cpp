#include "main/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace kvik {
namespace {

constexpr uint64_t kWidth = 40;

}  // namespace

ProgressBar::ProgressBar(std::string_view what)
    : what_(what), is_terminal_(::isatty(STDERR_FILENO) == 1) {}

void ProgressBar::show(uint64_t done, uint64_t all, const std::string& note) {
  if (done >= all) return close();
  const uint64_t filled = done * kWidth / all;
  if (!is_terminal_ || filled == shown_) return;
  shown_ = filled;
  is_open_ = true;
  fmt::print(stderr, "\r{} [{:<{}}] {}\033[K", what_, std::string(filled, '='), kWidth, note);
  std::fflush(stderr);
}

void ProgressBar::close() {
  if (is_open_) fmt::print(stderr, "\r\033[K");
  is_open_ = false;
}

}  // namespace kvik
