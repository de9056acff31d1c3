#include "cli/key_source.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>

#include "base/check.h"
#include "base/utf8.h"

namespace kvik {
namespace {

constexpr char32_t kReplacement = 0xFFFD;
int resize_event = -1;

void on_resize(int) {
  const int before = errno;
  const uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(resize_event, &one, sizeof(one));
  errno = before;
}

}  // namespace

void KeySource::watch_size() {
  if (resize_event >= 0) return;
  resize_event = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  CHECK(resize_event >= 0);
  struct sigaction action {};
  action.sa_handler = on_resize;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGWINCH, &action, nullptr);
}

bool KeySource::has_character() const {
  if (pending_.empty()) return false;
  return is_ended_ || next_utf8(pending_, 0).kind != Utf8Step::Kind::kIncomplete;
}

char32_t KeySource::take_character() {
  const Utf8Step step = next_utf8(pending_, 0);
  pending_.erase(0, step.n_bytes);
  return step.kind == Utf8Step::Kind::kValid ? step.code_point : kReplacement;
}

KeySource::Key KeySource::next() {
  while (!has_character()) {
    if (is_ended_) return {.kind = Kind::kEnd};
    pollfd waited[] = {{fd_, POLLIN, 0}, {signal_fd_, POLLIN, 0}, {resize_event, POLLIN, 0}};
    if (::poll(waited, 3, -1) <= 0) continue;
    if (waited[1].revents & POLLIN) return {.kind = Kind::kSignal};
    if (waited[2].revents & POLLIN) {
      uint64_t count = 0;
      [[maybe_unused]] const auto n = ::read(resize_event, &count, sizeof(count));
      return {.kind = Kind::kResized};
    }
    if (waited[0].revents == 0) continue;
    char buffer[4096];
    const ssize_t n = ::read(fd_, buffer, sizeof(buffer));
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) {
      is_ended_ = true;
    } else {
      pending_.append(buffer, static_cast<size_t>(n));
    }
  }
  return {.kind = Kind::kCharacter, .character = take_character()};
}

}  // namespace kvik
