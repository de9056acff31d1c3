#pragma once

#include <string>

namespace kvik {

// Reads typed characters, and the events that interrupt waiting for them. It is the only place that
// waits for the user.
class KeySource {
 public:
  // fd: a terminal or a pipe. signal_fd: readable when a signal has arrived.
  KeySource(int fd, int signal_fd) : fd_(fd), signal_fd_(signal_fd) {}

  enum class Kind { kCharacter, kSignal, kResized, kEnd };
  struct Key {
    Kind kind;
    char32_t character = 0;
  };
  // Waits for the next key. Invalid UTF-8 is returned as U+FFFD.
  Key next();

  // Makes next() report changes of the window size.
  static void watch_size();

 private:
  // Returns whether pending_ begins with a whole character or with bytes that cannot become one.
  bool has_character() const;
  char32_t take_character();

  const int fd_;
  const int signal_fd_;
  std::string pending_;
  bool is_ended_ = false;
};

}  // namespace kvik
