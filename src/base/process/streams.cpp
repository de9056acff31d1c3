#include "base/process/streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/printable.h"

namespace kvik::streams {
namespace {

std::atomic<int> stdout_error = 0;

void remember(int error) {
  int none = 0;
  stdout_error.compare_exchange_strong(none, error);
}

void put(std::FILE* file, std::string_view bytes) {
  errno = 0;
  const bool is_written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if (!is_written && file == stdout) remember(errno != 0 ? errno : EIO);
}

}  // namespace

void reserve_standard_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // Opened in the opposite direction, so that using it fails. The lowest free number is this one.
    [[maybe_unused]] const int held = ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

void write(std::string_view bytes) { put(stdout, bytes); }

void print_text(std::string_view text) { put(stdout, printable(text, Breaks::kKept)); }

void print_error(std::string_view sentence) {
  put(stderr, fmt::format("{}\n", printable(sentence, Breaks::kShown)));
}

int write_now(std::FILE* stream, std::string_view bytes) {
  errno = 0;
  const bool is_written = std::fwrite(bytes.data(), 1, bytes.size(), stream) == bytes.size();
  if (is_written && std::fflush(stream) == 0) return 0;
  const int error = errno != 0 ? errno : EIO;
  if (stream == stdout) remember(error);
  return error;
}

int flush() {
  errno = 0;
  if (std::fflush(stdout) != 0) remember(errno != 0 ? errno : EIO);
  return stdout_error;
}

int finish(int exit_code, int failed) {
  const int error = flush();
  if (error == 0 || error == EPIPE || exit_code != 0) return exit_code;
  print_error(fmt::format("kvik: cannot write to stdout: {}", std::strerror(error)));
  return failed;
}

}  // namespace kvik::streams
