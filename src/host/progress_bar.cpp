#include "host/progress_bar.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/process/streams.h"

namespace kvik {
namespace {

constexpr uint64_t kWidth = 40;
constexpr Duration kNoteInterval = std::chrono::milliseconds(250);
constexpr std::string_view kFrame = " [] ";

// Returns the width of the bar beside text_bytes of text, so that the line does not wrap: a line
// that wraps cannot be erased.
uint64_t bar_width(size_t text_bytes) {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kWidth;
  return size.ws_col > text_bytes ? std::min(kWidth, size.ws_col - text_bytes) : 0;
}

}  // namespace

ProgressBar::ProgressBar(std::string_view what)
    : what_(what), is_terminal_(::isatty(STDERR_FILENO) == 1) {}

void ProgressBar::show(uint64_t done, uint64_t all, const std::string& note) {
  if (done >= all) return close();
  if (!is_terminal_) return;
  const uint64_t width = bar_width(what_.size() + note.size() + kFrame.size() + 1);
  const uint64_t filled = done * width / all;
  const TimePoint now = std::chrono::steady_clock::now();
  const bool has_new_note = note != note_ && now - drawn_ >= kNoteInterval;
  if (width == 0 || (filled == shown_ && !has_new_note)) return;
  shown_ = filled;
  note_ = note;
  drawn_ = now;
  is_open_ = true;
  streams::write_now(
      stderr, fmt::format("\r{} [{:<{}}] {}\033[K", what_, std::string(filled, '='), width, note));
}

void ProgressBar::close() {
  if (is_open_) streams::write_now(stderr, "\r\033[K");
  is_open_ = false;
}

}  // namespace kvik
